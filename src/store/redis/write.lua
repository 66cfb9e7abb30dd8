-- One write to one entry, whole: who reads sees all of it or nothing of it.
-- KEYS: the entry. ARGV: its time to live in ms, the most fields it may have, then the changes, each
-- a word and what goes with it.
-- Answers: whether the record that is there is the one that was given, or none was given; whether a
-- record is adopted; and the record that is there where it is another.
local key, ttl, most = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- What is no entry is not ours and in the way.
local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', key)
end

local ours = 1
local at = 3
while at <= #ARGV do
  local change, what = ARGV[at], ARGV[at + 1]
  at = at + 2
  if change == 'mark' then
    redis.call('HSET', key, what, '1')
  elseif change == 'note' then
    if redis.call('HEXISTS', key, what) == 1 or redis.call('HLEN', key) < most then
      redis.call('HSET', key, what, ARGV[at])
    end
    at = at + 1
  elseif change == 'record' then
    if redis.call('HSETNX', key, 'record', what) == 0 then
      ours = redis.call('HGET', key, 'record') == what and 1 or 0
    end
  elseif change == 'discard' then
    -- The mark was of the record that goes.
    if redis.call('HGET', key, 'record') == what then
      redis.call('HDEL', key, 'record', 'adopted')
    end
  end
end

redis.call('PEXPIRE', key, ttl)
local adopted = redis.call('HEXISTS', key, 'adopted')
if ours == 1 then
  return { 1, adopted }
end
return { 0, adopted, redis.call('HGET', key, 'record') }
