//! `g2 doctor --fix`: what can be mended is listed, and mended after a yes.

use anyhow::Context as _;
use serde::Serialize;

use super::{
    super::{Context, Failure, confirm::Yes, image, out},
    row::Row,
};
use crate::{
    app,
    domain::problems::mend::Mend,
    root::{keep_private, make_group_folder, make_private, remove_draft},
    system::socket::remove_stale_socket,
};

/// A mend, and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Mended {
    mend: String,
    done: bool,
    why: Option<String>,
}

/// Mends what the rows say can be mended, each once.
///
/// # Errors
/// Nobody can be asked, or the answer was no: then nothing was changed.
pub(super) async fn fix(context: &Context, rows: &[Row], yes: &Yes) -> Result<Vec<Mended>, Failure> {
    let mut mends: Vec<&Mend> = Vec::new();
    for mend in rows.iter().filter_map(Row::mend) {
        if !mends.contains(&mend) {
            mends.push(mend);
        }
    }
    if mends.is_empty() {
        return Ok(Vec::new());
    }
    if !context.json {
        let list: String = mends.iter().map(|mend| format!("  {}\n", mend.words())).collect();
        out::text(&format!("can be mended:\n{list}"))?;
    }
    yes.to("each of these is done")?;
    let mut mended = Vec::new();
    for mend in mends {
        let outcome = perform(context, mend).await;
        let why = outcome.err().map(|failure| failure.to_string());
        mended.push(Mended { mend: mend.words(), done: why.is_none(), why });
    }
    Ok(mended)
}

async fn perform(context: &Context, mend: &Mend) -> Result<(), Failure> {
    let root = &context.root;
    match mend {
        Mend::CloseRoot => match keep_private(root).into_iter().next() {
            None => Ok(()),
            Some((path, error)) => {
                Err(anyhow::Error::new(error).context(format!("closing {}", path.display())).into())
            }
        },
        Mend::CloseFile(path) => {
            Ok(make_private(path).with_context(|| format!("closing {}", path.display()))?)
        }
        Mend::MakeFolder(group) => {
            let owner = app::box_owner();
            Ok(make_group_folder(root, group, owner)
                .with_context(|| format!("making the folder of {group}"))?)
        }
        Mend::LayOutBoxes => Ok(app::lay_out_boxes(&context.world, root).await?),
        Mend::RemoveDraft(path) => {
            Ok(remove_draft(path).with_context(|| format!("removing {}", path.display()))?)
        }
        Mend::RemoveSocket(path) => {
            Ok(remove_stale_socket(path).with_context(|| format!("removing {}", path.display()))?)
        }
        Mend::BuildImage(kind, name) => image::build(context, *kind, name).await,
    }
}

/// What was mended, for people.
pub(super) fn shown(mended: &[Mended]) -> String {
    let line = |one: &Mended| match &one.why {
        None => format!("mended: {}\n", one.mend),
        Some(why) => format!("not mended: {}: {why}\n", one.mend),
    };
    mended.iter().map(line).collect()
}
