//! Changing settings of one group.

use std::collections::BTreeMap;

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use super::super::{By, Done, OpError, Operation, Site, args::Trigger};
use crate::config::dotenv;
use crate::domain::{
    rows::Group,
    runs::{
        group_config::{BadGroupConfig, GroupConfig, Key},
        run_settings::{IMAGE_NAMES, Provider, may_be_an_image, one_of},
        tool_servers,
    },
    time::zone::{Zones, suggestion},
};

/// Settings that a live run does not depend on.
const FOR_PEOPLE: [Key; 9] = [
    Key::Name,
    Key::Trigger,
    Key::Seen,
    Key::Bots,
    Key::Commands,
    Key::BudgetRequests,
    Key::BudgetTokens,
    Key::BudgetMoney,
    Key::BudgetMinutes,
];

/// Held from the look at the settings of now until the new ones are stored.
static SETTING: Mutex<()> = Mutex::const_new(());

/// Change settings of one group; an empty value restores the default of all groups.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Folder of the group.
    pub folder: Folder,
    /// Settings by their keys, as `g2 groups set --help` lists them; either all are changed or none.
    #[arg(skip)]
    pub settings: BTreeMap<Key, String>,
    /// SHA-256, in hex digits, of settings as they were seen, by their keys; of none: that of an empty text. Where one is another by
    /// now, nothing is changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[arg(skip)]
    pub was: BTreeMap<Key, String>,
}

/// Returns the digest of a setting as it is shown.
#[must_use]
pub fn digest_of(value: Option<&str>) -> String {
    Sha256::digest(value.unwrap_or_default()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Operation for Args {
    type Row = Group;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<Group>, OpError> {
        let Self { folder, settings, was } = self;
        settings.iter().try_for_each(|(key, value)| check(*key, value))?;
        let turn = SETTING.lock().await;
        let group = site.group(&folder).await?;
        fits(site, &group, &settings)?;
        check_seen(&group, &was)?;
        let zones = match settings.get(&Key::Timezone) {
            Some(name) => {
                let zones = site.config()?.zones.clone();
                check_zone(name, &zones)?;
                Some(zones)
            }
            None => None,
        };
        let relaunch = settings.keys().any(|key| !FOR_PEOPLE.contains(key));
        site.store.set_group(folder.clone(), settings, zones, site.world.now()).await?;
        drop(turn);
        // A live run keeps the settings that it was launched with.
        if relaunch {
            site.keeper.relaunch(&folder);
        }
        site.keeper.changed(Some(&folder)).await?;
        let group = site.group(&folder).await?;
        // The change is made, whatever can be said of it.
        let notes = notes(site, &group)
            .unwrap_or_else(|error| vec![format!("what its tool servers lack can't be told: {error}")]);
        Ok(Done::new(group, format!("group {folder} is changed")).noting(notes))
    }
}

impl Args {
    /// Says what the agent may do with folders that it could not write to before; `None`: there are none. A person is asked first.
    #[must_use]
    pub fn writable(&self, group: &Group) -> Option<String> {
        let value = self.settings.get(&Key::Mounts)?;
        // Settings of before that can't be read have no writable mount; those of now are refused with their fault.
        let had = group.config().map(|config| config.mounts).unwrap_or_default();
        let config = GroupConfig::default().with(Key::Mounts, value).ok()?;
        let new = config.mounts.iter().filter(|mount| mount.readonly == Some(false) && !had.contains(mount));
        let paths: Vec<&str> = new.map(|mount| mount.host_path.as_str()).collect();
        (!paths.is_empty()).then(|| {
            format!(
                "the agent of {} can change and remove everything in {}",
                group.folder,
                paths.join(" and ")
            )
        })
    }
}

/// Refuses where a setting is another by now than was seen: a list that is replaced as a whole would lose what came meanwhile.
fn check_seen(group: &Group, was: &BTreeMap<Key, String>) -> Result<(), OpError> {
    let own = group.config().map_err(|error| bad(&error))?;
    match was.iter().find(|(key, seen)| digest_of(group.setting(&own, **key).as_deref()) != **seen) {
        Some((key, _)) => {
            Err(OpError::refused(format!("{key} of group {} was changed meanwhile", group.folder))
                .hint("nothing was changed, so that no change is lost; look at it again and merge the two"))
        }
        None => Ok(()),
    }
}

fn check_zone(name: &str, zones: &Zones) -> Result<(), OpError> {
    if name.is_empty() || zones.get(name).is_some() {
        return Ok(());
    }
    let meant = suggestion(name).map(|zone| format!("did you mean {zone}?")).unwrap_or_default();
    Err(OpError::invalid(format!("timezone can't be {name:?}: there is no such zone")).hint(meant))
}

/// Notes what the tool servers of a group still lack.
fn notes(site: &Site<'_>, group: &Group) -> Result<Vec<String>, OpError> {
    let (Ok(own), Ok(all)) = (group.config(), site.settings) else { return Ok(Vec::new()) };
    if own.mcp.is_empty() {
        return Ok(Vec::new());
    }
    let network = own.network.unwrap_or(all.sandbox.network);
    let rules = site.store.rules_outside(&group.folder, &all.egress.allow)?;
    let dotenv = dotenv::text(site.root);
    let has = |name: &str| dotenv::value(&dotenv, name).is_some();
    let lacks = tool_servers::lacks(&group.folder, &own.mcp, network, &rules, has);
    let lacks = lacks.into_iter().map(|(_, lack)| format!("{}: {}", lack.what, lack.fix));
    let provider = group.provider.as_deref().unwrap_or(all.agent.provider.as_str());
    let scripted = (provider == Provider::Scripted.as_str()).then(|| {
        format!("the scripted agent uses no tool servers: `g2 groups set {} provider=claude`", group.folder)
    });
    Ok(scripted.into_iter().chain(lacks).collect())
}

fn bad(error: &BadGroupConfig) -> OpError {
    OpError::invalid(error.to_string()).hint(error.hint())
}

fn check(key: Key, value: &str) -> Result<(), OpError> {
    match (key, value) {
        (Key::Name | Key::Trigger, "") => Err(OpError::invalid(format!("a group's {key} can't be empty"))),
        (Key::Trigger, text) => {
            text.parse::<Trigger>().map(drop).map_err(|bad| OpError::invalid(bad.to_string()))
        }
        (Key::Provider, name) if !name.is_empty() => one_of::<Provider>(name)
            .map(drop)
            .map_err(|why| OpError::invalid(format!("provider can't be {name:?}: {why}"))),
        (Key::Image, name) if !may_be_an_image(name) => {
            Err(OpError::invalid(format!("image can't be {name:?}: {IMAGE_NAMES}")))
        }
        _ => Ok(()),
    }
}

/// Checks that the group can be launched with these settings on top of its own and those of all groups.
fn fits(site: &Site<'_>, group: &Group, settings: &BTreeMap<Key, String>) -> Result<(), OpError> {
    let mut config = group.config().map_err(|error| bad(&error))?;
    for (key, value) in settings {
        config = config.with(*key, value).map_err(|error| bad(&error))?;
    }
    // Settings that can't be read are reported by the code that needs them.
    if let Ok(all) = site.settings {
        if config.budget.money.is_some_and(|money| money > 0.0) && all.budget.prices.is_empty() {
            return Err(OpError::invalid("budget.money has no effect before models have prices")
                .hint("write them to [budget] prices in g2.toml; docs/budgets.md has an example"));
        }
        all.run_settings().of(None, None, &config).map_err(|error| OpError::invalid(error.to_string()))?;
    }
    Ok(())
}
