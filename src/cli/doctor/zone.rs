//! In which time zone schedules are read, and by which data.

use super::row::Row;
use crate::domain::{
    problems::checks::Check,
    rows::Group,
    time::zone::{Source, ZoneChoice, ZoneData},
};

pub(super) fn check(choice: &ZoneChoice, data: &ZoneData) -> Vec<Row> {
    // A name that is none is a problem of the list.
    let mut rows = Vec::new();
    if choice.rejected.is_empty() {
        rows.push(Row::ok(Check::TimeZone, choice.name.clone()));
    }
    let system = data.system_version.as_deref();
    let bundled = &data.bundled_version;
    rows.push(Row::ok(
        Check::ZoneData,
        match (data.source, system) {
            (Source::System, system) => {
                format!("this system's, {}; ours are {bundled}", system.unwrap_or("-"))
            }
            (Source::Bundled, Some(system)) => format!("ours, {bundled}; this system's are older: {system}"),
            (Source::Bundled, None) => {
                format!("ours, {bundled}; this system has none, or none with a version")
            }
        },
    ));
    rows
}

/// Groups whose own zone is none.
pub(super) fn of_groups(groups: &[Group], everybodys: &ZoneChoice, data: &ZoneData) -> Vec<Row> {
    let own = |group: &Group| group.config["timezone"].as_str().map(str::to_owned);
    let unknown = groups.iter().filter_map(|group| Some((group, own(group)?)));
    unknown
        .filter(|(_, name)| data.get(name).is_none())
        .map(|(group, name)| {
            Row::warn(
                Check::TimeZone,
                format!(
                    "{name:?} of group {} is not a time zone, so {} is used",
                    group.folder, everybodys.name
                ),
                format!("correct it, such as `g2 groups set {} timezone=Europe/Paris`; an empty value restores the default", group.folder),
            )
            .of(group.folder.as_str())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_in_use_are_named_and_so_are_those_that_are_not() {
        let ours = ZoneData::newest(None, None).bundled_version;
        for (text, system, said) in [
            (None, false, "this system has none"),
            (Some("# version 2020a\n"), true, "are older: 2020a"),
            (Some("# version 2099a\n"), true, "this system's, 2099a"),
        ] {
            let database = system.then(jiff::tz::TimeZoneDatabase::bundled);
            let data = ZoneData::newest(database, text);
            let rows = check(&data.resolve(&[Some("UTC")]), &data);
            assert_eq!(rows[0], Row::ok(Check::TimeZone, "UTC"));
            let told = rows[1].told();
            assert!(
                told.status == "ok" && told.detail.contains(said) && told.detail.contains(&ours),
                "{rows:?}"
            );
        }
    }
}
