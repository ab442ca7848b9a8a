//! People: their names, their roles, the groups that know them, and the policy for strangers.

use super::{OpError, Site, args::UserId};
use crate::domain::rows::User;

pub mod add;
pub mod add_member;
pub mod claim;
pub mod clear_dropped;
pub mod give_role;
pub mod remove;
pub mod remove_member;
pub mod set_chat;

/// Who gave a role or a membership that an operation gave.
const BY_HAND: &str = "command line";

/// Returns a user's row.
async fn row(site: &Site<'_>, id: &UserId) -> Result<Option<User>, OpError> {
    Ok(site.store.users().await?.into_iter().find(|user| user.id == id.as_str()))
}

/// There is no such user.
fn none(id: &UserId) -> OpError {
    OpError::not_found(format!("user {id} does not exist"))
}
