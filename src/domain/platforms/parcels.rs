//! How files are divided among the messages that a platform takes: one by one, or several alike in one message, with the text
//! beside the first of them where it is short enough.

use ipc_handlers::file::MediaKind;

use super::attachments::Attachment;

/// Pictures that every platform shows beside others.
const SHOWN: [&str; 3] = ["image/jpeg", "image/png", "image/webp"];

/// What a platform takes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// The largest file, bytes, and how much several of one message have together; 0: it takes none.
    pub largest: u64,
    /// How many files one message has.
    pub together: usize,
    /// The longest text beside a file, in the unit of its texts.
    pub caption: usize,
}

/// One message: a text, files, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel<T> {
    pub text: Option<T>,
    /// The first and the last of its files, counted from 1.
    pub files: Option<(usize, usize)>,
}

/// Returns the messages that say `texts` and bring all files that the platform takes, in order. `cut` makes texts of what stands
/// beside a single file, `length` tells how long a text is.
pub fn parcels<T>(
    texts: Vec<T>,
    files: &[Attachment],
    takes: Takes,
    cut: impl Fn(&str) -> Vec<T>,
    length: impl Fn(&T) -> usize,
) -> Vec<Parcel<T>> {
    let bundles = bundles(files, takes);
    let alone = |text| Parcel { text: Some(text), files: None };
    let is_caption = |texts: &[T]| matches!(texts, [text] if length(text) <= takes.caption);
    let own = |(first, _): &(usize, usize)| files[first - 1].caption.as_deref();
    let first_is_free = bundles.first().is_some_and(|bundle| own(bundle).is_none());
    let (mut beside, before) =
        if first_is_free && is_caption(&texts) { (texts, Vec::new()) } else { (Vec::new(), texts) };
    let mut all: Vec<Parcel<T>> = before.into_iter().map(alone).collect();
    for bundle in bundles {
        let mut texts = own(&bundle).map_or_else(|| std::mem::take(&mut beside), &cut);
        let text = if is_caption(&texts) { texts.pop() } else { None };
        all.push(Parcel { text, files: Some(bundle) });
        all.extend(texts.into_iter().map(alone));
    }
    all
}

/// Divides the files that a platform takes among messages.
fn bundles(files: &[Attachment], takes: Takes) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    let mut bytes = 0;
    for (n, file) in (1..).zip(files).filter(|(_, file)| file.size <= takes.largest) {
        let joins = all.last().is_some_and(|(first, last)| {
            *last + 1 == n
                && n - first < takes.together
                && alike(&files[last - 1], file)
                && bytes + file.size <= takes.largest
        });
        match all.last_mut() {
            Some(bundle) if joins => {
                bundle.1 = n;
                bytes += file.size;
            }
            _ => {
                all.push((n, n));
                bytes = file.size;
            }
        }
    }
    all
}

/// Whether two files may stand in one message.
fn alike(one: &Attachment, other: &Attachment) -> bool {
    let family = |file: &Attachment| match file.kind {
        _ if file.caption.is_some() => None,
        MediaKind::Image if SHOWN.contains(&file.mime.as_str()) => Some(MediaKind::Video),
        MediaKind::Image | MediaKind::Voice => None,
        kind @ (MediaKind::Video | MediaKind::Audio | MediaKind::Document) => Some(kind),
    };
    family(one).is_some_and(|of| family(other) == Some(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKES: Takes = Takes { largest: 100, together: 3, caption: 5 };

    fn file(what: &str) -> Attachment {
        let (kind, mime) = match &what[..1] {
            "i" => (MediaKind::Image, "image/png"),
            "g" => (MediaKind::Image, "image/gif"),
            "f" => (MediaKind::Video, "video/mp4"),
            "a" => (MediaKind::Audio, "audio/mpeg"),
            "v" => (MediaKind::Voice, "audio/ogg"),
            _ => (MediaKind::Document, "text/plain"),
        };
        let (size, caption) = match what[1..].split_once('/') {
            Some((size, caption)) => (size, Some(caption.to_owned())),
            None => (&what[1..], None),
        };
        let size = if size.is_empty() { 1 } else { size.parse().unwrap() };
        Attachment { kind, mime: mime.into(), size, caption, ..Attachment::default() }
    }

    /// As `TEXT+FIRST-LAST`, one word a message. A text is cut at commas.
    fn shown(text: &str, files: &str, takes: Takes) -> String {
        let cut =
            |text: &str| text.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let files: Vec<Attachment> = files.split_whitespace().map(file).collect();
        let all = parcels(cut(text), &files, takes, cut, String::len);
        let word = |parcel: Parcel<String>| {
            let files = parcel.files.map(|(first, last)| format!("+{first}-{last}")).unwrap_or_default();
            format!("{}{files}", parcel.text.unwrap_or_default())
        };
        all.into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files_go_together_where_they_are_alike_and_fit_and_a_short_text_goes_with_the_first() {
        for (text, files, expected) in [
            ("hi", "", "hi"),
            ("hi", "i", "hi+1-1"),
            ("", "i", "+1-1"),
            ("longer", "i", "longer +1-1"),
            ("a,b", "i i", "a b +1-2"),
            // Pictures and films, sounds, or other files; at most three.
            ("hi", "i f i i d d a a", "hi+1-3 +4-4 +5-6 +7-8"),
            ("", "v v g g", "+1-1 +2-2 +3-3 +4-4"),
            // Together no larger than one may be; what is too large stays out.
            ("", "i60 i40 i1", "+1-2 +3-3"),
            ("hi", "i101 i", "hi+2-2"),
            ("", "i i101 i", "+1-1 +3-3"),
            // A text of a file's own.
            ("", "i/look i", "look+1-1 +2-2"),
            ("hi", "i/look i", "hi look+1-1 +2-2"),
            ("hi", "i i/look", "hi+1-1 look+2-2"),
            ("", "i/longer", "+1-1 longer"),
            ("", "i/one,two", "+1-1 one two"),
        ] {
            assert_eq!(shown(text, files, TAKES), expected, "{text:?} {files:?}");
        }
        assert_eq!(shown("hi", "i i", Takes { together: 1, ..TAKES }), "hi+1-1 +2-2");
        assert_eq!(shown("hi", "i i", Takes { together: 0, caption: 0, ..TAKES }), "hi +1-1 +2-2");
        assert_eq!(shown("hi", "i i", Takes::default()), "hi");
    }
}
