-- How many parts of a long answer are said already, while its record is being applied: each is a transaction of its own.
ALTER TABLE runs ADD COLUMN said_parts INTEGER NOT NULL DEFAULT 0 CHECK (said_parts >= 0);
