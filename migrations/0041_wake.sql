-- How a lane's session is taken up again: what failed at it, whether it begins afresh and why, and when it was used last.
ALTER TABLE sessions ADD COLUMN failed_resumes INTEGER NOT NULL DEFAULT 0 CHECK (failed_resumes >= 0);
ALTER TABLE sessions ADD COLUMN fresh_why TEXT CHECK (fresh_why IN ('not_resumed', 'crash_loop', 'silent', 'unfinished'));
ALTER TABLE sessions ADD COLUMN active_at INTEGER;
-- A turn of it was finished: there is a conversation to lose.
ALTER TABLE sessions ADD COLUMN proven INTEGER NOT NULL DEFAULT 0 CHECK (proven IN (0, 1));
UPDATE sessions SET proven = 1 WHERE session_id IS NOT NULL;

-- With which session a run began, and whether its end counts against that.
ALTER TABLE runs ADD COLUMN wake TEXT CHECK (wake IN ('first', 'resume', 'fresh'));
ALTER TABLE runs ADD COLUMN fresh_why TEXT CHECK (fresh_why IN ('not_resumed', 'crash_loop', 'silent', 'unfinished'));
ALTER TABLE runs ADD COLUMN died INTEGER NOT NULL DEFAULT 0 CHECK (died IN (0, 1));
