-- A person wants a run ended: who (NULL: nobody does), how, and what becomes of what it has in hand. A restart goes on with it.
ALTER TABLE runs ADD COLUMN stop_by TEXT CHECK (length(stop_by) BETWEEN 1 AND 200);
ALTER TABLE runs ADD COLUMN stop_when TEXT CHECK (stop_when IN ('in_order', 'now'));
ALTER TABLE runs ADD COLUMN stop_then TEXT
  CHECK (stop_then IN ('give_up', 'ask_again') AND (stop_by IS NULL) = (stop_when IS NULL) OR stop_then IS NULL AND stop_by IS NULL);
