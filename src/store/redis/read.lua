-- Reads one entry whole, or nothing of it if it exceeds a bound: no stranger's value reaches longhaul.
-- KEYS: the entry. ARGV: its time to live in ms, or 0 to keep the remaining time; the maximum number
-- of its fields; the maximum total bytes of fields and values.
-- Returns: fields and values in turn.
local key, ttl, most = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[3])

if redis.call('TYPE', key).ok ~= 'hash' or redis.call('HLEN', key) > tonumber(ARGV[2]) then
  return {}
end
local entry = redis.call('HGETALL', key)
local bytes = 0
for _, text in ipairs(entry) do
  bytes = bytes + #text
end
if bytes > most then
  return {}
end
if ttl > 0 then
  -- A read-only copy is still read.
  redis.pcall('PEXPIRE', key, ttl)
end
return entry
