local HEADER = @HEADER@
local PREFIX = @PREFIX@
local ON_DEMAND = @ON_DEMAND@
local WILDCARDS = {
@HOSTS@}

-- Scopes to try for a host, the most specific first. The host as it was sent has been tried.
local function candidates(host)
  local list = {}
  local lower = string.lower(host)
  if lower ~= host then list[1] = lower end
  local dot = string.find(lower, ".", 1, true)
  while dot do
    local wildcard = "*" .. string.sub(lower, dot)
    if WILDCARDS[wildcard] then list[#list + 1] = wildcard end
    dot = string.find(lower, ".", dot + 1, true)
  end
  if WILDCARDS["*"] then list[#list + 1] = "*" end
  return list
end

local function matched(handle)
  return handle:streamInfo():routeName() ~= ""
end

function envoy_on_request(handle)
  if matched(handle) then return end
  local headers = handle:headers()
  local authority = headers:get(":authority")
  if authority == nil then return end
  local host = authority
  if string.sub(host, 1, 1) ~= "[" then host = string.match(host, "^[^:]*") end

  local list = candidates(host)
  local current = headers:get(HEADER)
  local on_demand = string.sub(current, -#ON_DEMAND) == ON_DEMAND
  local suffix = on_demand and ON_DEMAND or ""
  local at = 1
  for index, scope in ipairs(list) do
    if PREFIX .. scope .. suffix == current then at = index + 1 end
  end
  for try = 1, 2 do
    local scope = list[at]
    if scope == nil then return end
    headers:replace(HEADER, PREFIX .. scope .. suffix)
    handle:clearRouteCache()
    if on_demand or try == 2 then return end
    -- Its first use makes Envoy look the route up again.
    handle:metadata()
    if matched(handle) then return end
    at = at + 1
  end
end
