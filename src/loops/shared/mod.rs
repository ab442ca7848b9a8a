//! What several loops work on together. Each of these locks itself, so a loop is given only those that it uses.

mod allowances;
mod boxes;
mod held;
mod machine;
mod sights;
mod to_lanes;
mod troubles;

pub use allowances::Allowances;
pub use boxes::Boxes;
pub use held::Held;
pub use machine::{Blind, Machine, Obstacle};
pub use sights::{EndsHow, Sight, Sights};
pub use to_lanes::{Adoption, ForLanes, ToLanes};
pub use troubles::{Trouble, Troubles};
