-- Whether the agent's answer to a batch was in <internal> blocks altogether, so that nothing was said.
ALTER TABLE batches ADD COLUMN unsaid INTEGER NOT NULL DEFAULT 0 CHECK (unsaid IN (0, 1));
