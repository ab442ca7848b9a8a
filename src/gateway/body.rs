//! The bodies that pass: piece by piece, bounded in size, and never silent for ever.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::block_in_place,
    time::{Instant, Sleep, sleep},
};

use super::{
    Caller,
    fetches::{Look, Reason},
    log::Line,
    meter::Meter,
    plain::Plain,
    purse::Fare,
    refusals::Heard,
    sought::{End, Filter, Sought},
};

/// How much of a request is waited for before the model's host is bothered with it, bytes: its whole, mostly.
const BEGINNING: usize = 128 << 10;

/// The most that is looked into on the spot, bytes. More takes a while, in which the requests of others are to go on.
const SHORT: usize = 4 << 10;

/// Why a body ends before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the body has more than {0} bytes")]
    TooLarge(u64),
    #[error("nothing came for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("the connection broke off")]
    Broken,
    /// It is packed, or no text at all.
    #[error("it is no text")]
    NoText,
    #[error("{0}")]
    Refused(Reason),
}

/// A body with its bounds; trailers are left out.
struct Bounded {
    inner: Incoming,
    most: u64,
    seen: u64,
    silence: Duration,
    timer: Pin<Box<Sleep>>,
    ended: bool,
}

impl Bounded {
    fn new(inner: Incoming, most: u64, silence: Duration) -> Self {
        Self { inner, most, seen: 0, silence, timer: Box::pin(sleep(silence)), ended: false }
    }

    fn is_over(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    /// How much is still to come.
    fn left(&self) -> SizeHint {
        if self.is_over() { SizeHint::with_exact(0) } else { self.inner.size_hint() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = pin!(&mut self.inner).poll_frame(cx) else {
            ready!(self.timer.as_mut().poll(cx));
            return Poll::Ready(Some(Err(Fault::Silent(self.silence))));
        };
        self.timer.as_mut().reset(Instant::now() + self.silence);
        let data = match frame {
            Some(Ok(frame)) => frame.into_data().ok(),
            Some(Err(_)) => return Poll::Ready(Some(Err(Fault::Broken))),
            None => None,
        };
        let Some(data) = data else {
            self.ended = true;
            return Poll::Ready(None);
        };
        self.seen += data.len() as u64;
        if self.seen > self.most {
            return Poll::Ready(Some(Err(Fault::TooLarge(self.most))));
        }
        Poll::Ready(Some(Ok(data)))
    }
}

/// A request's body on its way up, looked into before it passes.
pub(super) struct Upload {
    body: Bounded,
    /// What came before the model's host was asked.
    beginning: Vec<u8>,
    look: Option<Look>,
    /// Sent to the task that waits for the answer.
    fault: Arc<OnceLock<Fault>>,
    caller: Arc<Caller>,
}

impl Upload {
    pub(super) fn new(
        inner: Incoming,
        caller: &Arc<Caller>,
        look: Option<Look>,
        fault: Arc<OnceLock<Fault>>,
    ) -> Self {
        let limits = &caller.shared.limits;
        let body = Bounded::new(inner, limits.request_bytes, limits.upload_silence);
        Self { body, beginning: Vec::new(), look, fault, caller: Arc::clone(caller) }
    }

    /// Waits for the beginning of the body, so that what ends before it costs nobody else anything.
    ///
    /// # Errors
    /// [`Fault`], which the body ends with.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        while self.beginning.len() < BEGINNING {
            match poll_fn(|cx| self.poll(cx)).await {
                Some(piece) => self.beginning.extend_from_slice(&piece?),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Returns the next piece, which was looked into.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let is_new = !self.body.ended;
        let piece = ready!(self.body.poll(cx));
        let looked = match (&mut self.look, &piece) {
            (Some(look), Some(Ok(data))) => {
                let looked =
                    if data.len() <= SHORT { look.push(data) } else { block_in_place(|| look.push(data)) };
                // The last piece is passed on when the whole of it is good: no other may follow.
                looked.and_then(|()| if self.body.is_over() { look.end() } else { Ok(()) })
            }
            (Some(look), None) if is_new => look.end(),
            (Some(_) | None, _) => Ok(()),
        };
        Poll::Ready(match looked {
            Ok(()) => piece,
            Err(reason) => Some(Err(Fault::Refused(reason))),
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // The weight of a request is known when it is over; the next one waits for it.
        let weight = usize::try_from(self.body.seen >> 20).unwrap_or(usize::MAX);
        self.caller.rate().take(weight, self.caller.shared.world.now());
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if !self.beginning.is_empty() {
            let beginning = std::mem::take(&mut self.beginning);
            return Poll::Ready(Some(Ok(Frame::data(beginning.into()))));
        }
        let piece = ready!(self.poll(cx));
        if let Some(Err(fault)) = &piece {
            let _ = self.fault.set(fault.clone());
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_over() && self.beginning.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        more(&self.body.left(), self.beginning.len())
    }
}

/// Returns the size of what is to come and of what came before it.
fn more(rest: &SizeHint, begun: usize) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower() + begun as u64);
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper + begun as u64);
    }
    hint
}

/// One request that goes to the model's host. When it is dropped, however that comes, it is in the books.
pub(super) struct Entry {
    pub(super) caller: Arc<Caller>,
    pub(super) meter: Meter,
    pub(super) is_error: bool,
    pub(super) fare: Fare,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.fare.pay(self.meter.usage());
        self.caller.shared.books.used(self.caller.run, self.meter.usage(), self.is_error);
    }
}

/// An answer's body on its way down, metered, and without the keys that are `sought`.
pub(super) struct Download {
    body: Bounded,
    plain: Plain,
    /// What came before the agent was answered.
    first: Option<Bytes>,
    entry: Entry,
    sought: Arc<Sought>,
    heard: Option<Heard>,
    filter: Filter,
}

impl Download {
    pub(super) fn new(
        inner: Incoming,
        most: u64,
        silence: Duration,
        entry: Entry,
        (sought, heard): (Arc<Sought>, Option<Heard>),
    ) -> Self {
        let body = Bounded::new(inner, most, silence);
        let (plain, first, filter) = (Plain::default(), None, Filter::default());
        Self { body, plain, first, entry, sought, heard, filter }
    }

    /// Waits for the first piece, so that what is no text gets no answer instead of a part of one.
    ///
    /// # Errors
    /// [`Fault`], which the body ends with.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        if let Some(piece) = poll_fn(|cx| self.poll(cx)).await {
            self.first = Some(piece?);
        }
        Ok(())
    }

    /// Returns the next piece, which is text.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let piece = ready!(self.body.poll(cx));
        let is_text =
            piece.as_ref().is_none_or(|piece| piece.as_ref().map_or(true, |data| self.plain.push(data)));
        Poll::Ready(if is_text { piece } else { Some(Err(Fault::NoText)) })
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.entry.is_error |= !self.body.is_over();
        if let Some(heard) = &self.heard {
            heard.end(&self.entry.caller);
        }
        if self.filter.found() > 0 {
            self.entry.caller.log.warn(Line::KeyEchoed, &self.entry.caller.shared.upstream);
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        loop {
            let piece = ready!(self.poll(cx));
            let Self { body, entry, sought, heard, filter, .. } = &mut *self;
            let end = if body.is_over() { End::Reached } else { End::NotYet };
            let passed = match piece {
                Some(Ok(data)) => filter.push(sought, &data, end),
                Some(Err(fault)) => {
                    entry.caller.log.warn(Line::CutOff, &fault);
                    return Poll::Ready(Some(Err(fault)));
                }
                None if filter.held() == 0 => return Poll::Ready(None),
                None => filter.push(sought, &[], End::Reached),
            };
            if !passed.is_empty() {
                // The meter keeps a model's name, which must not be the key either.
                entry.meter.push(&passed);
                if let Some(heard) = heard {
                    heard.push(&passed);
                }
                return Poll::Ready(Some(Ok(Frame::data(passed.into()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_over() && self.first.is_none() && self.filter.held() == 0
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for before anything was held back: the filler is as long as what it replaces.
        more(&self.body.inner.size_hint(), self.first.as_ref().map_or(0, Bytes::len))
    }
}
