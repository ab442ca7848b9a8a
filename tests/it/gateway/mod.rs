//! The gateway from both its ends: an agent's on a real socket, and the model host's on a real port.

mod bounds;
mod budgets;
pub(crate) mod daemon;
mod egress;
pub(crate) mod host;
mod hostile;
mod keys;
mod metering;
mod outside;
mod passing;
mod proxied;
mod rates;
mod refused;
pub(crate) mod scene;
mod sockets;
mod tls;
