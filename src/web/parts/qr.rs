//! A picture that a phone scans, as SVG. It is dark on light in both themes: not every phone reads the other way.

use maud::{Markup, html};
use qrcode::{Color, QrCode};

/// The light edge that a picture has to have, in its own units.
const EDGE: usize = 4;

/// Returns the picture of a text; `None`: the text is too long.
pub(in crate::web) fn qr(text: &str, label: &str) -> Option<Markup> {
    let code = QrCode::new(text.as_bytes()).ok()?;
    let (width, colours) = (code.width(), code.to_colors());
    let dark = colours.iter().enumerate().filter(|(_, colour)| **colour == Color::Dark);
    let path: String =
        dark.map(|(at, _)| format!("M{} {}h1v1h-1z", at % width + EDGE, at / width + EDGE)).collect();
    let all = width + 2 * EDGE;
    Some(html! {
        svg.qr viewBox={ "0 0 " (all) " " (all) } role="img" aria-label=(label) shape-rendering="crispEdges" {
            rect width=(all) height=(all) fill="#ffffff" {}
            path d=(path) fill="#000000" {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_finders_and_a_light_edge_and_a_long_text_has_none() {
        let svg = qr("K7QM-2XPD", "code").unwrap().into_string();
        assert!(svg.contains("viewBox=\"0 0 29 29\""), "{svg}");
        // The corners of the three finders, and nothing on the edge.
        for corner in ["M4 4h", "M24 4h", "M4 24h"] {
            assert!(svg.contains(corner), "{corner}: {svg}");
        }
        assert!(!svg.contains("M3 ") && !svg.contains("M25 "), "{svg}");
        assert!(qr(&"x".repeat(10_000), "long").is_none());
    }
}
