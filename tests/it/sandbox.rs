//! What every sandbox must do, run on both, and what each of them promises on top.
#![expect(clippy::unwrap_used, reason = "what a test does not expect fails it")]

mod from_inside;
pub(crate) mod house;
mod only_docker;
mod only_process;
mod uids;

use g2::domain::states::SandboxName;
use std::time::Duration;

use futures_util::StreamExt;
use g2::sandbox::{
    Chunk, SandboxError, State,
    output::{Parsed, Parser},
};
use ipc_handlers::wire::{OUTPUT_END, OUTPUT_START, Record};
use tokio::task::JoinHandle;

use self::house::{House, eventually, in_time, is_held};

/// Makes each function of the list a test on either sandbox.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod docker {
            $(#[tokio::test]
            async fn $name() {
                if let Some(house) = super::House::docker().await {
                    super::$name(house).await;
                }
            })*
        }
        mod process {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::House::process()).await;
            })*
        }
    };
}

on_both! {
    stdin_arrives_to_the_last_byte
    characters_come_out_whole_however_they_were_cut
    records_of_any_length_are_read
    both_streams_are_told_apart
    a_flood_within_the_limit_is_read_to_its_end
    output_beyond_the_limit_ends_the_stream_with_the_reason
    the_exit_code_is_the_programs_own
    killing_a_container_kills_its_processes
    the_end_of_a_container_ends_its_processes
    memory_is_bounded
    each_state_is_listed_with_its_labels
    only_containers_of_the_instance_are_listed
    one_that_never_says_anything_can_be_stopped
    one_that_never_says_anything_can_be_killed
    one_that_never_reads_its_stdin_can_be_killed_while_it_is_written
    one_that_leaves_without_reading_its_stdin_is_no_error
    output_is_read_from_the_beginning_after_the_end_too
    output_and_wait_may_be_asked_for_before_the_start
    a_name_is_taken_until_its_container_is_removed
    a_removed_container_is_gone
    one_that_never_started_is_removed
    the_environment_is_as_requested
}

async fn stdin_arrives_to_the_last_byte(house: House) {
    let stdin: Vec<u8> = (0..10 << 20).map(|n: u32| (n % 251) as u8).collect();
    let sum = stdin.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let (code, written) = house.run(&["count"], &stdin).await;
    assert_eq!((code, written.text()), (0, &*format!("{} {sum}\n", stdin.len())));
}

async fn characters_come_out_whole_however_they_were_cut(house: House) {
    let (_, written) = house.run(&["utf8", "100000"], b"").await;
    let line: String = "é€😀".chars().cycle().take(100_000).collect();
    // An engine's log may leave out the line end behind a line as long as this.
    assert!(written.text().trim_end() == line);
}

async fn records_of_any_length_are_read(house: House) {
    let texts =
        [10, 20_000, 1_000_000, 16_383, 10].map(|length| "é€😀".chars().cycle().take(length).collect());
    let stdin: String = texts.iter().map(|text: &String| record(text)).collect();
    let (_, written) = house.run(&["echo"], stdin.as_bytes()).await;
    let mut parsed = Vec::new();
    Parser::new().push(&written.stdout, &mut parsed);
    let read: Vec<_> = parsed
        .into_iter()
        .map(|parsed| match parsed {
            Parsed::Record(record) => record.result.unwrap(),
            Parsed::Garbage { reason, .. } => panic!("{reason}"),
        })
        .collect();
    assert!(read == texts);
}

fn record(text: &str) -> String {
    let record = Record { result: Some(text.to_owned()), ..Record::default() };
    format!("{OUTPUT_START}\n{}\n{OUTPUT_END}\n", serde_json::to_string(&record).unwrap())
}

async fn both_streams_are_told_apart(house: House) {
    let (_, written) = house.run(&["both"], b"").await;
    assert_eq!((&*written.stdout, &*written.stderr), (&b"to stdout\n"[..], &b"to stderr\n"[..]));
}

async fn a_flood_within_the_limit_is_read_to_its_end(house: House) {
    let bytes = 64_000_000;
    let (code, written) = house.run(&["flood", &bytes.to_string()], b"").await;
    assert_eq!((code, written.stdout.len()), (0, bytes));
}

async fn output_beyond_the_limit_ends_the_stream_with_the_reason(house: House) {
    let mut spec = house.spec(&["flood", "100000000"]);
    spec.limits.output_bytes = 1 << 20;
    let id = house.launch_spec(&spec, b"").await;
    let items: Vec<_> = in_time(house.sandbox.output(&id).collect()).await;
    let (last, before) = items.split_last().unwrap();
    let handed: usize = before
        .iter()
        .map(|item| match item {
            Ok(Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) => bytes.len(),
            Err(error) => panic!("{error}"),
        })
        .sum();
    assert!(handed <= 1 << 20);
    assert!(matches!(last, Err(SandboxError::Flooded { bytes }) if *bytes > 1 << 20), "{last:?}");
    house.sandbox.kill(&id).await.unwrap();
    house.code(&id).await;
}

async fn the_exit_code_is_the_programs_own(house: House) {
    for code in [0, 3, 255] {
        let (exit, _) = house.run(&["exit", &code.to_string()], b"").await;
        assert_eq!(exit, code);
    }
    let id = house.launch(&["hang"], b"").await;
    house.sandbox.kill(&id).await.unwrap();
    assert_eq!(house.code(&id).await, 137);
    assert_eq!(house.code(&id).await, 137, "the end stays known");
}

async fn killing_a_container_kills_its_processes(house: House) {
    let lock = house.group().join("lock");
    let id = house.launch(&["child-holds", &house.inside("lock")], b"").await;
    eventually("the child holds the lock", || is_held(&lock)).await;
    house.sandbox.kill(&id).await.unwrap();
    eventually("the child is gone", || !is_held(&lock)).await;
}

async fn the_end_of_a_container_ends_its_processes(house: House) {
    let lock = house.group().join("lock");
    let (code, _) = house.run(&["leaves-a-child", &house.inside("lock")], b"").await;
    assert_eq!(code, 0);
    assert!(lock.exists());
    eventually("the child is gone", || !is_held(&lock)).await;
}

async fn memory_is_bounded(house: House) {
    let mut spec = house.spec(&["alloc", "500000000"]);
    let id = house.launch_spec(&spec, b"").await;
    assert_eq!(house.written(&id).await.text(), "allocated 500000000\n");
    spec = house.spec(&["alloc", "500000000"]);
    spec.limits.memory_bytes = Some(64 << 20);
    let id = house.launch_spec(&spec, b"").await;
    assert_eq!(house.written(&id).await.text(), "");
    let exit = house.sandbox.wait(&id).await.unwrap();
    assert_ne!(exit.code, 0);
    if house.sandbox.kind() == SandboxName::Docker {
        assert!(exit.oom, "{exit:?}");
    }
}

async fn each_state_is_listed_with_its_labels(house: House) {
    let spec = house.spec(&["hang"]);
    let id = house.sandbox.create(&spec).await.unwrap();
    let seen = async |state| {
        let found = house.sandbox.list(&house.instance).await.unwrap();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&found.id, &found.name, found.run), (&id, &spec.name, spec.run));
        assert_eq!((&*found.group, found.state), ("family", state));
    };
    seen(State::Created).await;
    house.sandbox.start(&id, Vec::new()).await.unwrap();
    seen(State::Running).await;
    house.sandbox.kill(&id).await.unwrap();
    house.code(&id).await;
    seen(State::Exited).await;
    house.sandbox.remove(&id).await.unwrap();
    assert_eq!(house.sandbox.list(&house.instance).await.unwrap(), []);
}

async fn only_containers_of_the_instance_are_listed(house: House) {
    house.create(&["hang"]).await;
    // The beginning of its name is somebody else's.
    let (other, _) = house.instance.rsplit_once('-').unwrap();
    assert_eq!(house.sandbox.list(other).await.unwrap(), []);
}

async fn one_that_never_says_anything_can_be_stopped(house: House) {
    let id = house.launch(&["hang"], b"never read").await;
    house.sandbox.stop(&id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(house.code(&id).await, 143, "it was asked first");
    assert_eq!(house.written(&id).await.stdout, b"");
    house.sandbox.stop(&id, Duration::from_secs(60)).await.unwrap();
}

async fn one_that_never_says_anything_can_be_killed(house: House) {
    let id = house.launch(&["hang"], b"never read").await;
    house.sandbox.kill(&id).await.unwrap();
    assert_eq!(house.code(&id).await, 137);
    house.sandbox.kill(&id).await.unwrap();
}

async fn one_that_never_reads_its_stdin_can_be_killed_while_it_is_written(house: House) {
    let lock = house.group().join("lock");
    let id = house.create(&["hold", &house.inside("lock")]).await;
    let sandbox = std::sync::Arc::clone(&house.sandbox);
    let start: JoinHandle<_> = tokio::spawn({
        let id = id.clone();
        async move { sandbox.start(&id, vec![b'x'; 20 << 20]).await }
    });
    eventually("it runs", || is_held(&lock)).await;
    assert!(!start.is_finished(), "more than any pipe holds");
    house.sandbox.kill(&id).await.unwrap();
    in_time(start).await.unwrap().unwrap();
}

async fn one_that_leaves_without_reading_its_stdin_is_no_error(house: House) {
    let (code, _) = house.run(&["exit", "0"], &vec![b'x'; 20 << 20]).await;
    assert_eq!(code, 0);
}

async fn output_is_read_from_the_beginning_after_the_end_too(house: House) {
    let id = house.launch(&["flood", "1000000"], b"").await;
    let live = house.written(&id).await;
    house.code(&id).await;
    let after = house.written(&id).await;
    assert_eq!(live.stdout.len(), 1_000_000);
    assert!(live == after);
}

async fn output_and_wait_may_be_asked_for_before_the_start(house: House) {
    let id = house.create(&["echo"]).await;
    let output = house.sandbox.output(&id).collect::<Vec<_>>();
    let started = async {
        house.sandbox.start(&id, b"hello\n".to_vec()).await.unwrap();
    };
    let (output, exit, ()) =
        in_time(futures_util::future::join3(output, house.sandbox.wait(&id), started)).await;
    let output: Vec<_> = output.into_iter().map(Result::unwrap).collect();
    assert_eq!(output, [Chunk::Stdout(b"hello\n".to_vec())]);
    assert_eq!(exit.unwrap().code, 0);
}

async fn a_name_is_taken_until_its_container_is_removed(house: House) {
    let spec = house.spec(&["exit", "0"]);
    let id = house.launch_spec(&spec, b"").await;
    house.code(&id).await;
    let error = house.sandbox.create(&spec).await.unwrap_err();
    assert!(matches!(&error, SandboxError::NameTaken { name } if *name == spec.name), "{error}");
    house.sandbox.remove(&id).await.unwrap();
    house.sandbox.create(&spec).await.unwrap();
}

async fn a_removed_container_is_gone(house: House) {
    let id = house.launch(&["hang"], b"").await;
    house.sandbox.remove(&id).await.unwrap();
    house.sandbox.remove(&id).await.unwrap();
    house.sandbox.kill(&id).await.unwrap();
    house.sandbox.stop(&id, Duration::ZERO).await.unwrap();
    for error in [
        house.sandbox.start(&id, Vec::new()).await.unwrap_err(),
        house.sandbox.wait(&id).await.unwrap_err(),
        in_time(house.sandbox.output(&id).next()).await.unwrap().unwrap_err(),
    ] {
        assert!(matches!(&error, SandboxError::Gone { id: gone } if *gone == id), "{error}");
    }
}

async fn one_that_never_started_is_removed(house: House) {
    let id = house.create(&["hang"]).await;
    house.sandbox.kill(&id).await.unwrap();
    house.sandbox.stop(&id, Duration::ZERO).await.unwrap();
    house.sandbox.remove(&id).await.unwrap();
    assert_eq!(house.sandbox.list(&house.instance).await.unwrap(), []);
}

async fn the_environment_is_as_requested(house: House) {
    let mut spec = house.spec(&["env"]);
    spec.env.insert("TZ".to_owned(), "Pacific/Auckland".to_owned());
    spec.env.insert("ODD".to_owned(), "a=b c\n\"é\"".to_owned());
    let id = house.launch_spec(&spec, b"").await;
    let written = house.written(&id).await;
    assert!(written.text().contains("ODD=a=b c\n\"é\"\n"), "{written:?}");
    assert!(written.lines().contains(&"TZ=Pacific/Auckland"));
    assert!(!written.text().contains("CARGO"), "ours is not passed on");
}
