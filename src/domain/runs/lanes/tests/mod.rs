//! Scenarios in a notation of their own (`script`), and random lives in a model of the world (`world`, `rules`).

mod model;
mod rests;
mod rules;
mod runs;
mod script;
mod slots;
mod world;
