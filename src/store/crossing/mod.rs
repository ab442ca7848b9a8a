//! Where talk and work meet: from the inbox to a batch.

pub(super) mod handover;
pub(super) mod lanes;
