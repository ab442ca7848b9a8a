-- What happened since the root was made, counted: rows that are pruned stay counted here.
CREATE TABLE totals (
  what  TEXT NOT NULL CHECK (what IN ('runs', 'kills', 'tokens', 'requests')),
  label TEXT NOT NULL CHECK (length(label) <= 96),
  kind  TEXT NOT NULL CHECK (length(kind) <= 32),
  count INTEGER NOT NULL CHECK (count >= 0),
  PRIMARY KEY (what, label, kind)
) STRICT, WITHOUT ROWID;

INSERT INTO totals SELECT 'runs', kind, status, count(*) FROM runs WHERE status IN ('succeeded', 'failed', 'cancelled') GROUP BY kind, status;
INSERT INTO totals SELECT 'tokens', model, 'input', sum(input_tokens) FROM usage WHERE model <> '' GROUP BY model ORDER BY 4 DESC LIMIT 50;
INSERT INTO totals SELECT 'tokens', model, 'output', sum(output_tokens) FROM usage WHERE model IN (SELECT label FROM totals WHERE what = 'tokens') GROUP BY model;
INSERT INTO totals SELECT 'tokens', model, 'cache_read', sum(cache_read_tokens) FROM usage WHERE model IN (SELECT label FROM totals WHERE what = 'tokens') GROUP BY model;
INSERT INTO totals SELECT 'tokens', model, 'cache_creation', sum(cache_creation_tokens) FROM usage WHERE model IN (SELECT label FROM totals WHERE what = 'tokens') GROUP BY model;
INSERT INTO totals SELECT 'requests', 'all', 'answered', coalesce(sum(requests - errors), 0) FROM usage;
INSERT INTO totals SELECT 'requests', 'all', 'failed', coalesce(sum(errors), 0) FROM usage;
INSERT INTO totals SELECT 'requests', 'all', 'refused', coalesce(sum(refused), 0) FROM usage;
