-- rules: limit and rate of a key; the rule of domain/lane.py.
-- uses: base
-- built when needed
-- KEYS key_rules     HASH  name of a key -> limit, and its rate if it has one
-- KEYS key_prefixes  HASH  prefix with * behind it -> the same

local NO_RULE = { 1 }

local found_rules, prefix_rules, any_exact = {}, nil, nil

-- The hash a pattern stands in: there may be a rule for each of many keys, but only few prefixes.
local function home_of(pattern)
  return pattern:sub(-1) == '*' and K.key_prefixes or K.key_rules
end

local function forget_rules()
  found_rules, prefix_rules, any_exact = {}, nil, nil
end

local function figures_in(text)
  local rule = {}
  for figure in text:gmatch('%S+') do
    rule[#rule + 1] = tonumber(figure)
  end
  return rule
end

local function read_prefixes()
  local found = call('HGETALL', K.key_prefixes)
  prefix_rules = {}
  for at = 1, #found, 2 do
    prefix_rules[#prefix_rules + 1] = { found[at]:sub(1, -2), figures_in(found[at + 1]) }
  end
  table.sort(prefix_rules, function(a, b) return #a[1] > #b[1] end)
end

local function rule_of_prefix(key)
  if not prefix_rules then read_prefixes() end
  for _, rule in ipairs(prefix_rules) do
    if key:sub(1, #rule[1]) == rule[1] then return rule[2] end
  end
  return NO_RULE
end

-- The exact rule, else the longest prefix, else a limit of 1: [limit, starts, seconds, …].
local function rule_of(key)
  if any_exact == false and prefix_rules and not prefix_rules[1] then return NO_RULE end
  if not found_rules[key] then
    if any_exact == nil then any_exact = call('HLEN', K.key_rules) > 0 end
    local text = any_exact and call('HGET', K.key_rules, key)
    found_rules[key] = text and figures_in(text) or rule_of_prefix(key)
  end
  return found_rules[key]
end
