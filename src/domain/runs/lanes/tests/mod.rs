//! Scenarios in a notation of their own (`script`), and random lives in a model of the world (`world`, `rules`): some of six
//! groups in which everything happens (`model`), some of three hundred over a simulated hour (`load`).

mod load;
mod model;
mod rests;
mod rules;
mod runs;
mod script;
mod slots;
mod world;
