-- Which of the texts that a session was archived with the index of its group has seen.
ALTER TABLE archives ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
