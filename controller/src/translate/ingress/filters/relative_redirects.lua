-- Redirects within the host of the request are sent without scheme and host.
function envoy_on_request(handle)
  local headers = handle:headers()
  local origin = (headers:get("x-forwarded-proto") or "http") .. "://" .. (headers:get(":authority") or "")
  handle:streamInfo():dynamicMetadata():set("isthmus.relative-redirects", "origin", origin)
end

function envoy_on_response(handle)
  local noted = handle:streamInfo():dynamicMetadata():get("isthmus.relative-redirects")
  local location = handle:headers():get("location")
  if noted == nil or location == nil then return end
  local origin = noted["origin"]
  local rest = location:sub(#origin + 1)
  if location:sub(1, #origin) ~= origin or rest:sub(1, 1) ~= "/" or rest:sub(2, 2) == "/" then return end
  handle:headers():replace("location", rest)
end
