-- Holds the entries of one scope within a bound. The least recently written go first.
-- KEYS: a sorted set of the entries, and a hash of their bytes, with their sum under total. ARGV:
-- the time in ms, the lifetime of an entry in ms, the bound in bytes, then the name and the bytes of each
-- entry that was just written.
local index, sizes = KEYS[1], KEYS[2]
local now, ttl, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

for at = 4, #ARGV, 2 do
  local name, bytes = ARGV[at], tonumber(ARGV[at + 1])
  local before = tonumber(redis.call('HGET', sizes, name) or '0')
  redis.call('ZADD', index, now, name)
  redis.call('HSET', sizes, name, bytes)
  redis.call('HINCRBY', sizes, 'total', bytes - before)
end

local function forget(name)
  local bytes = tonumber(redis.call('HGET', sizes, name) or '0')
  redis.call('DEL', name)
  redis.call('HDEL', sizes, name)
  return redis.call('HINCRBY', sizes, 'total', -bytes)
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now - ttl, 'LIMIT', 0, 256)) do
  local left = redis.call('PTTL', name)
  if left > 0 then
    -- A read has renewed the entry.
    redis.call('ZADD', index, now - ttl + left, name)
  else
    redis.call('ZREM', index, name)
    forget(name)
  end
end
local bytes = tonumber(redis.call('HGET', sizes, 'total') or '0')
while bytes > most do
  local oldest = redis.call('ZPOPMIN', index)
  if #oldest == 0 then
    redis.call('DEL', sizes)
    break
  end
  bytes = forget(oldest[1])
end
redis.call('PEXPIRE', index, ttl)
redis.call('PEXPIRE', sizes, ttl)
return 1
