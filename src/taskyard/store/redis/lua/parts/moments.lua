-- moments: what else waits for a moment in `due`: k=key and r=lane for the rate to have a token
-- more, p=lane and y= for the end of a pause.
-- uses: keys, orders, founding, audit

local OVER = 'its time was over'

-- Numbers of tasks are hexadecimal digits.
local function is_moment(member)
  return member:sub(2, 2) == '='
end

local function key_opens(name, key)
  local rate = rate_of(key)
  drop(K.due, name)
  if rate then
    wake_waiters(key, tokens_in(name, rate))
    tell_waiters(key, rate)
  end
end

local function lane_goes_on(lane)
  local row = lane_row(lane)
  row[PAUSED], row[PAUSED_REASON], row[PAUSED_UNTIL] = false, false, false
  write_lane(lane, row)
  audit('system', 'resume', 'lane:' .. row[LANE_NAME], OVER)
end

local function it_has_come(name)
  local what, of = name:sub(1, 1), name:sub(3)
  if what == 'k' then
    key_opens(name, of)
  else
    drop(K.due, name)
    if what == 'p' then
      lane_goes_on(of)
    elseif what == 'y' then
      call('HSET', K.meta, 'paused', '0')
      audit('system', 'resume', 'yard', OVER)
    end
  end
  hint()
end
