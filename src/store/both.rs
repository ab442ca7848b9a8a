//! Changes of a group in both halves, in one transaction: each half does its part.

use std::collections::BTreeMap;

use ipc_handlers::{Folder, Time};

use super::{
    Result, Store, StoreError,
    crossing::fallbacks,
    talk::groups,
    work::{runs, tasks},
};
use crate::domain::{
    runs::group_config::Key,
    time::{clocks::Clocks, zone::Zones},
};

impl Store {
    /// Removes a group with its wirings, lanes and tasks. One with an active run is refused.
    pub async fn remove_group(&self, group: Folder) -> Result<()> {
        self.write(move |c| {
            if runs::has_active(c, &group)? {
                return Err(StoreError::refused(
                    format!("group {group} has an active run on record"),
                    "start the daemon, which adopts or ends it, and remove the group then",
                ));
            }
            groups::remove(c, &group)
        })
        .await
    }

    /// Changes a group: its columns `name`, `trigger`, `provider`, `script` and `image` (an empty value clears the last
    /// three), and what its `config` holds. All of it or nothing. With `zones`, its cron tasks are
    /// moved to the clocks of the zone that it has then.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what is wrong with a value, such as a name that another group has.
    pub async fn set_group(
        &self,
        group: Folder,
        settings: BTreeMap<Key, String>,
        zones: Option<Zones>,
        now: Time,
    ) -> Result<()> {
        self.write(move |c| {
            groups::set(c, &group, &settings)?;
            if settings.contains_key(&Key::Model) || settings.contains_key(&Key::ModelFallback) {
                fallbacks::forget(c, &group)?;
            }
            match &zones {
                Some(zones) => {
                    let mut after = Some(0);
                    while let Some(n) = after {
                        after = tasks::read_clocks_again(c, Some(&group), Clocks::Zone, zones, n, now)?;
                    }
                    Ok(())
                }
                None => Ok(()),
            }
        })
        .await
    }
}
