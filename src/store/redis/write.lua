-- Applies one write to one entry atomically: a reader sees all of it or nothing of it.
-- KEYS: the entry. ARGV: its time to live in ms, the maximum number of its fields, the maximum bytes
-- of a record, then the changes, each a word with its arguments.
-- Returns: 1 if the stored record is the given one or none was given, otherwise 0; whether a record
-- is adopted; and, after 0, the stored record.
local key, ttl, most = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- A key that is not a hash, or exceeds a bound, is not an entry of longhaul's, and is in the way.
local kind = redis.call('TYPE', key).ok
local is_foreign = kind ~= 'hash' and kind ~= 'none'
if kind == 'hash' then
  local record = redis.call('HGET', key, 'record')
  is_foreign = redis.call('HLEN', key) > most or (record and #record > tonumber(ARGV[3]))
end
if is_foreign then
  redis.call('DEL', key)
end

local ours = 1
local at = 4
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
    -- The mark belongs to the record that is removed.
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
