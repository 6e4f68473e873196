-- What every function of the library shares. The library puts this file and keys.lua first, then the other files of shared, each as a table of
-- its name, then the verbs.
--
-- A verb is called with KEYS[1] = the partition's record, "atf:{p}", and ARGV[1] = "" or, in tests, the instant to take for
-- the server's TIME; a minus before it says that the call pushes nothing itself (pushing.lua). It reads everything it needs and checks it before it writes: Lua has no way back.
-- Instants and durations are integer microseconds; scores hold them exactly (2^53 µs is the year 2255).

local LIVE = {'NEW', 'RETRIABLE_FAILURE', 'ENQUEUED', 'CLAIMED', 'PROCESSING'}

local FINISHED = {SUCCESS = true, FATAL_FAILURE = true, CANCELLED = true}

local MOVED = {  -- the field that holds the time of the last move into a state
  NEW = 't1', ENQUEUED = 't2', CLAIMED = 't3', PROCESSING = 't4', SUCCESS = 't5', RETRIABLE_FAILURE = 't6',
  FATAL_FAILURE = 't7', CANCELLED = 't8',
}

local NOTHING = {}  -- for what mostly is empty: a table costs as much as half a command. Nobody writes into it

local PART = 1000  -- values of one command; Lua can unpack some thousands

-- What was made before is remembered: to build a string costs as much as half a command.
local REMEMBERED = 2000  -- then all is forgotten

local KEYS_REMEMBERED = 32768  -- each of 3,000 lambdas has ten that its tasks need

local texts, texts_count = {}, 0

local function fmt(number)
  local text = texts[number]
  if not text then  -- most calls are about a few instants
    if texts_count == REMEMBERED then texts, texts_count = {}, 0 end
    text = string.format('%d', number)  -- tostring says 1.7e+15
    texts[number], texts_count = text, texts_count + 1
  end
  return text
end

-- By partition, by name of a queue, a lambda or what else, by maker: a key, or one by status or number. A table for each would cost more
-- than what stands in it.
local made, made_count, makers = {}, 0, 0

local function remembered(make)
  makers = makers + 1
  local maker = makers
  return function(P, name, more)
    local names = made[P]
    local keys = names and names[name]
    local key = keys and keys[maker]
    if key and more then key = key[more] end
    if key then return key end
    if made_count >= KEYS_REMEMBERED then made, made_count = {}, 0 end
    made_count = made_count + 1
    made[P] = made[P] or {}
    made[P][name] = made[P][name] or {}
    keys, key = made[P][name], make(P, name, more)
    if more then
      keys[maker] = keys[maker] or {}
      keys[maker][more] = key
    else
      keys[maker] = key
    end
    return key
  end
end

local function instant(given)
  if given ~= '' and given ~= '-' then return math.abs(tonumber(given)) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- The rank at which a page of a sorted set begins that follows the one that ended with `member`, scored `at` ("" = the first page).
local function page_start(set, at, member)
  if member == '' then return 0 end
  local rank = redis.call('ZRANK', set, member)
  if rank and tonumber(redis.call('ZSCORE', set, member)) == tonumber(at) then return rank + 1 end
  return redis.call('ZCOUNT', set, '-inf', '(' .. at)  -- it has moved meanwhile
end

-- A number that grows, also across a server that lost its last second.
local function grown(key, field, now)
  local number = fmt(math.max(tonumber(redis.call('HGET', key, field) or 0) + 1, now))
  redis.call('HSET', key, field, number)
  return number
end

-- Fields of a record that a call names, each before its value: `count` arguments from `first` on, by name.
local function fields_given(args, first, count)
  if count == 0 then return NOTHING end
  local fields = {}
  for i = first, first + count - 1, 2 do fields[args[i]] = args[i + 1] end
  return fields
end

-- The named fields of a record, to be unpacked into variables in the same order; false for each that is not there.
local function fields_of(key, ...) return unpack(redis.call('HMGET', key, ...)) end
