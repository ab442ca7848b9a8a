//! The loop beside the agent.
