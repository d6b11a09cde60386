-- noting: which tasks a claim has taken, and how.
-- uses: tasks

-- Those that were taken, in their order; and their lives, of which many in a row are the same, as far as a
-- worker reads them: each is followed by how many have it. And the numbers of those that have a checkpoint.
local function nobody()
  return { n = 0, lives = {}, last = 0, checkpointed = {} }
end

local function note_taken(taken, no, life)
  local lives, n, last = taken.lives, taken.n + 1, taken.last
  taken[n], taken.n = no, n
  if life == lives[last - 1] then
    lives[last] = lives[last] + 1
  else
    lives[last + 1], lives[last + 2], taken.last = life, 1, last + 2
  end
end

-- The same of many.
local function note_row(taken, nos, told)
  local lives, n, last = taken.lives, taken.n, taken.last
  for at = 1, #nos do
    taken[n + at] = nos[at]
  end
  for at = 1, #told do
    lives[last + at] = told[at]
  end
  taken.n, taken.last = n + #nos, last + #told
end

-- How the lives of plain tasks end that are taken now.
local function ending_when_taken(search, started_at)
  return ending_of('running', 'claimed', search.lease_text, search.number, search.node, started_at, false)
end
