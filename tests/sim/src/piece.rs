//! A piece of work that blocks, on the one thread there is: while it waits, others go on. It has a stack of its own.
#![expect(
    unsafe_code,
    reason = "a future that work waits for lies on the stack of that work, which stands still meanwhile"
)]

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    ptr::NonNull,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use g2::system::world::Work;

/// Whether the work goes on; otherwise its daemon is dead.
type GoesOn = bool;
/// What the work waits for, on its own stack.
type Wanted = NonNull<dyn Future<Output = ()>>;

thread_local! {
    /// The piece of work that this thread does now.
    static AT_WORK: Cell<Option<NonNull<Yielder<GoesOn, Wanted>>>> = const { Cell::new(None) };
    /// Stacks of work that is over: to make one costs more than most work does.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The daemon is dead: what waits is not gone on with.
struct Dead;

/// A piece of work. Dropped before its end, it ends without whatever it waits for.
pub(crate) struct Piece(Option<OnStack>);

type OnStack = Coroutine<GoesOn, Wanted, (), DefaultStack>;

impl Piece {
    pub(crate) fn new(work: Work) -> Self {
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_default();
        Self(Some(Coroutine::with_stack(stack, move |yielder: &Yielder<GoesOn, Wanted>, goes_on| {
            if goes_on {
                AT_WORK.set(Some(NonNull::from(yielder)));
                work();
            }
        })))
    }

    /// Does it to its end.
    pub(crate) async fn done(mut self) {
        while let Some(on_stack) = &mut self.0 {
            let resumed = on_stack.resume(true);
            AT_WORK.set(None);
            match resumed {
                CoroutineResult::Return(()) => return,
                CoroutineResult::Yield(mut wanted) => {
                    // SAFETY: it lies pinned on the stack of the work, which stands still until this future is done with, and which
                    // is given up (see `drop`) only once this future is dropped: its own variable goes before `self`.
                    let wanted = unsafe { Pin::new_unchecked(wanted.as_mut()) };
                    wanted.await;
                }
            }
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let Some(mut on_stack) = self.0.take() else { return };
        while !on_stack.done() {
            // It may catch what ends it, and wait for something more.
            let _ = catch_unwind(AssertUnwindSafe(|| on_stack.resume(false)));
            AT_WORK.set(None);
        }
        STACKS.with_borrow_mut(|stacks| stacks.push(on_stack.into_stack()));
    }
}

/// Waits within a piece of work, while others go on.
pub(crate) fn wait(wanted: Pin<&mut dyn Future<Output = ()>>) {
    let Some(yielder) = AT_WORK.get() else {
        unreachable!("only work that was given to hands waits in place")
    };
    // SAFETY: the future stays pinned where it is; only its lifetime is forgotten. The holder of the pointer uses it while this stack
    // stands still, see `done`.
    let wanted: Wanted = unsafe {
        let wanted: *mut (dyn Future<Output = ()> + '_) = Pin::get_unchecked_mut(wanted);
        NonNull::new_unchecked(std::mem::transmute::<
            *mut (dyn Future<Output = ()> + '_),
            *mut (dyn Future<Output = ()> + 'static),
        >(wanted))
    };
    // SAFETY: the yielder lies on the root of this stack, on which we are: it is there as long as we are.
    let goes_on = unsafe { yielder.as_ref() }.suspend(wanted);
    AT_WORK.set(Some(yielder));
    if !goes_on {
        resume_unwind(Box::new(Dead));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use g2::system::world::World;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{Calendar, Dice, Life, world};

    fn in_a_world<T>(play: impl AsyncFnOnce(World) -> T) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (world, hands) = world(&Calendar::new(0), &Dice::new(1), &Life::default(), 0);
            tokio::select! {
                biased;
                () = hands.works() => unreachable!(),
                played = play(world) => played,
            }
        })
    }

    #[test]
    fn work_waits_while_other_work_goes_on() {
        let order = in_a_world(async |world| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let (tells, told) = oneshot::channel();
            let (first, of_first) = (Arc::clone(&order), world.clone());
            let waits = world.blocking(move || {
                let word = of_first.wait(told).unwrap();
                first.lock().unwrap().push(word);
            });
            let second = Arc::clone(&order);
            let tells = world.blocking(move || {
                second.lock().unwrap().push("second");
                tells.send("first").unwrap();
            });
            let (waited, told) = tokio::join!(waits, tells);
            waited.unwrap();
            told.unwrap();
            order.lock().unwrap().clone()
        });
        assert_eq!(order, ["second", "first"]);
    }

    #[test]
    fn work_that_waits_when_its_daemon_dies_ends_and_drops_what_it_had() {
        let held = Arc::new(());
        let kept = Arc::downgrade(&held);
        in_a_world(async |world| {
            let of_work = world.clone();
            let waits = world.blocking(move || {
                let _held = held;
                // What ends it is caught, and it waits again.
                for _ in 0..3 {
                    let _ = catch_unwind(AssertUnwindSafe(|| of_work.wait(std::future::pending::<()>())));
                }
            });
            let slow = tokio::time::timeout(std::time::Duration::from_secs(1), waits).await;
            assert!(slow.is_err() && kept.upgrade().is_some());
        });
        assert!(kept.upgrade().is_none());
    }
}
