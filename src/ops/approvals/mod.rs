//! Questions about strangers and new chats, and their answers.

use super::{By, Done, OpCode, OpError, Site, missing};
use crate::{
    domain::{
        heard::{approvals::Approval, people::user_by_hand},
        kept::prune::History,
    },
    ipc,
    store::{Decided, How, Pick},
    system::failpoint,
};

pub mod approve;
pub mod deny;
pub mod deny_many;

/// Who answers where nobody else is named: the owner of this machine.
fn us() -> String {
    "local:me".into()
}

/// Returns the person who answers: a person in a chat is themselves, whatever name they give.
fn answerer(by: &By, named: &str) -> String {
    match by {
        By::Owner { .. } | By::Page { .. } | By::Token { .. } | By::Agent { .. } => user_by_hand(named),
        By::Person { user, .. } => user.clone(),
    }
}

/// Answers a question, and makes the folder and the boxes of a group that comes of it.
async fn decide(
    site: &Site<'_>,
    by: &By,
    id: i64,
    pick: Pick,
    user: &str,
) -> Result<Done<Approval>, OpError> {
    let gone = || missing(site.store, History::Approvals, id);
    let user = answerer(by, user);
    let Decided { how, says, made } = site.store.decide(id, pick, &user, site.world.now()).await?;
    match how {
        How::Done => {}
        How::NotAllowed => return Err(OpError::new(OpCode::NotAuthorized, says)),
        How::Late | How::Not => return Err(OpError::refused(says)),
    }
    if let Some(made) = &made {
        failpoint::reach("approval.made");
        ipc::lay_out_group(site.root, made, site.box_owner)?;
    }
    site.keeper.changed(made.as_ref()).await?;
    let (row, _) = site.store.approval(id).await?.ok_or_else(gone)?;
    Ok(Done::new(row, says))
}
