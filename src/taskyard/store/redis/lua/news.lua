-- news.lua: what a beat would bring back, without the write.
-- uses: nodes
-- args: lease

if not read_lease(args[1]) then return false end
return news_of(args[1])
