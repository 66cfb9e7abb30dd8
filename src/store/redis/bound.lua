-- Holds the entries of one scope within a bound. The least recently written go first.
-- KEYS: a sorted set of the entries, and the sum of their bytes. ARGV: the time in ms, the lifetime of
-- an entry in ms, the bound in bytes, then the name and the bytes of each entry that was just written.
local index, total = KEYS[1], KEYS[2]
local now, ttl, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

for at = 4, #ARGV, 2 do
  if redis.call('ZADD', index, now, ARGV[at] .. ' ' .. ARGV[at + 1]) == 1 then
    redis.call('INCRBY', total, ARGV[at + 1])
  end
end

local function forget(member)
  local name, bytes = string.match(member, '^(%S+) (%d+)$')
  redis.call('DEL', name)
  return redis.call('DECRBY', total, bytes)
end

-- Entries that expired have left the server already.
for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now - ttl, 'LIMIT', 0, 256)) do
  redis.call('ZREM', index, member)
  forget(member)
end
local bytes = tonumber(redis.call('GET', total) or '0')
while bytes > most do
  local oldest = redis.call('ZPOPMIN', index)
  if #oldest == 0 then
    redis.call('DEL', total)
    break
  end
  bytes = forget(oldest[1])
end
redis.call('PEXPIRE', index, ttl)
redis.call('PEXPIRE', total, ttl)
return 1
