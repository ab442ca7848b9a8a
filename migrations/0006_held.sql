-- What waits for a person: few rows among very many.
CREATE INDEX inbox_held ON inbox (lane_id, n) WHERE verdict = 'held';
