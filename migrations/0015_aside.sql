-- Whether it was the daemon that held a group, which it died over again and again.
ALTER TABLE holds ADD COLUMN aside INTEGER NOT NULL DEFAULT 0 CHECK (aside IN (0, 1) AND (aside = 0 OR box = ''));
