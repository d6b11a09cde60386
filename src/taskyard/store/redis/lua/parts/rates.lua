-- rates: token buckets; the rule of domain/rate.py.
-- uses: base
-- built when needed
-- KEYS buckets  ZSET  k=key or r=lane by the instant at which it is full again; none: it is full
-- KEYS due      ZSET  the same names by the instant at which somebody must be told: see moments

local STARTS, SECONDS, BURST, INTERVAL = 1, 2, 3, 4

local full_at, used = {}, {}

local function bucket(name)
  if not full_at[name] then full_at[name] = tonumber(call('ZSCORE', K.buckets, name) or 0) end
  return full_at[name]
end

-- How many may start now.
local function tokens_in(name, rate)
  local lacking = math.max(0, bucket(name) - now)
  return math.max(0, math.floor((rate[BURST] * rate[INTERVAL] - lacking) / rate[INTERVAL]))
end

-- When the bucket will hold one token more than now.
local function opens_at(name, rate)
  return bucket(name) - (rate[BURST] - tokens_in(name, rate) - 1) * rate[INTERVAL]
end

local function take_token(name, rate)
  full_at[name] = math.max(bucket(name), now) + rate[INTERVAL]
  used[name] = rate
  put(K.buckets, name, whole(full_at[name]))
end

local function set_bucket(name, instant)
  full_at[name] = instant
  put(K.buckets, name, whole(instant))
end

-- Calls `visit` with each bucket that tokens were taken from.
local function each_used(visit)
  for name, rate in pairs(used) do
    visit(name, rate)
  end
end

-- Lets the next token be told of, or nobody.
local function tell_of(name, rate, wanted)
  if wanted then
    put(K.due, name, whole(opens_at(name, rate)))
  else
    drop(K.due, name)
  end
end

local function rate_text(rate)
  return format('%d in %g s, burst %d', rate[STARTS], rate[SECONDS], rate[BURST])
end
