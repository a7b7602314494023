local HEADER = @HEADER@
local PREFIX = @PREFIX@
local WILDCARDS = {
@HOSTS@}

-- True when the request has a route under the scope that it is given.
local function try(handle, host)
  handle:headers():replace(HEADER, PREFIX .. host)
  handle:clearRouteCache()
  handle:metadata()
  return handle:streamInfo():routeName() ~= ""
end

function envoy_on_request(handle)
  if handle:streamInfo():routeName() ~= "" then return end
  local authority = handle:headers():get(":authority")
  if authority == nil then return end
  local host = string.lower(authority)
  if string.sub(host, 1, 1) ~= "[" then host = string.gsub(host, ":.*$", "") end
  if try(handle, host) then return end
  local dot = string.find(host, ".", 1, true)
  while dot do
    local wildcard = "*" .. string.sub(host, dot)
    if WILDCARDS[wildcard] and try(handle, wildcard) then return end
    dot = string.find(host, ".", dot + 1, true)
  end
  if WILDCARDS["*"] then try(handle, "*") end
end
