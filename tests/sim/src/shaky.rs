//! An engine of containers whose calls may panic, as a fault of its adapter would.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture, stream::BoxStream};
use g2::{
    domain::states::SandboxName,
    sandbox::{Chunk, Exit, Found, Sandbox, SandboxError, Spec},
};

use crate::{Containers, Dice, Faults};

/// What a panic that the plan wants says.
pub(crate) const PANIC: &str = "as the plan says";

/// Says nothing of panics that the plan wants.
pub(crate) fn quiet() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(PANIC) {
            tell(panic);
        }
    }));
}

/// An engine, and how often a call panics.
pub(crate) struct Shaky {
    pub(crate) engine: Containers,
    pub(crate) dice: Dice,
    pub(crate) faults: Faults,
    /// Of 1 000 calls, while it is not calm.
    pub(crate) panics: u64,
    pub(crate) calm: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Shaky {
    async fn steps(&self) {
        if !(self.calm)() && self.dice.per_mille(self.panics) {
            self.faults.count("a call of the sandbox panicked");
            std::panic::panic_any(PANIC);
        }
    }
}

impl Sandbox for Shaky {
    fn kind(&self) -> SandboxName {
        self.engine.kind()
    }

    fn survives_us(&self) -> bool {
        self.engine.survives_us()
    }

    fn check<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.steps().then(move |()| self.engine.check(image)).boxed()
    }

    fn protocol<'a>(&'a self, image: &'a str) -> BoxFuture<'a, Result<u32, SandboxError>> {
        self.steps().then(move |()| self.engine.protocol(image)).boxed()
    }

    fn create<'a>(&'a self, spec: &'a Spec) -> BoxFuture<'a, Result<String, SandboxError>> {
        self.steps().then(move |()| self.engine.create(spec)).boxed()
    }

    fn start<'a>(&'a self, id: &'a str, stdin: Vec<u8>) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.steps().then(move |()| self.engine.start(id, stdin)).boxed()
    }

    fn output(&self, id: &str) -> BoxStream<'static, Result<Chunk, SandboxError>> {
        self.engine.output(id)
    }

    fn wait<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Exit, SandboxError>> {
        self.steps().then(move |()| self.engine.wait(id)).boxed()
    }

    fn pid<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<u32>> {
        self.engine.pid(id)
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.steps().then(move |()| self.engine.stop(id, grace)).boxed()
    }

    fn kill<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.steps().then(move |()| self.engine.kill(id)).boxed()
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.steps().then(move |()| self.engine.remove(id)).boxed()
    }

    fn list<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<Vec<Found>, SandboxError>> {
        self.steps().then(move |()| self.engine.list(instance)).boxed()
    }
}
