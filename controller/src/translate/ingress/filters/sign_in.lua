-- Clients whom the server that decides answers with 401 are sent to a login page. What the page has to know of the
-- request is noted before the server is asked; `passed` is noted by the filter after it, so that a 401 of anybody else is left alone.
local function escape(text)
  return (text:gsub("[^%w%-%._~]", function(c) return string.format("%%%02X", c:byte()) end))
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local uri = headers:get(":path") or "/"
  local host = headers:get(":authority") or ""
  local scheme = headers:get("x-forwarded-proto") or "http"
  local values = {
    host = host:gsub(":%d+$", ""), http_host = host, best_http_host = host, server_name = host:gsub(":%d+$", ""),
    scheme = scheme, pass_access_scheme = scheme,
    request_uri = uri, escaped_request_uri = escape(uri), uri = uri:gsub("%?.*", ""),
  }
  local url = handle:filterContext():get("url"):gsub("%$([%a_]+)", values)
  handle:streamInfo():dynamicMetadata():set("isthmus.sign-in", "location", url)
end

function envoy_on_response(handle)
  if handle:headers():get(":status") ~= "401" then return end
  local noted = handle:streamInfo():dynamicMetadata():get("isthmus.sign-in")
  if noted == nil or noted["location"] == nil or noted["passed"] then return end
  handle:headers():replace(":status", "302")
  handle:headers():replace("location", noted["location"])
  handle:headers():remove("www-authenticate")
end
