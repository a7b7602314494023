-- The request to the server that decides: its method and host, not those of the request in question.
function envoy_on_request(handle)
  local settings = handle:filterContext()
  local headers = handle:headers()
  headers:replace(":method", settings:get("method"))
  headers:replace(":authority", settings:get("authority"))
end
