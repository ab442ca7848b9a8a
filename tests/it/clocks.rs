//! Times as people read them: v1's cases, zones against Node's, and groups with a zone of their own.

mod changes;
mod groups;
mod v1_cases;
mod zones;
