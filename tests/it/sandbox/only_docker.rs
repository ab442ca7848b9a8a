//! What Docker promises on top.

use std::time::Duration;

use futures_util::StreamExt;
use g2::sandbox::{Access, Mount, Sandbox, SandboxError, Whose, docker::DockerSandbox};

use super::house::{House, in_time};

#[tokio::test]
async fn the_program_inside_has_no_rights_and_no_network() {
    let Some(house) = House::docker().await else { return };
    let (_, written) = house.run(&["whoami"], b"").await;
    let none = "0000000000000000";
    for line in [
        "Uid: 1000 1000 1000 1000",
        "Gid: 1000 1000 1000 1000",
        &format!("CapEff: {none}"),
        &format!("CapPrm: {none}"),
        &format!("CapBnd: {none}"),
        "NoNewPrivs: 1",
        "Host: g2",
    ] {
        assert!(written.lines().contains(&line), "{line} is not in {written:?}");
    }
    let nets: Vec<_> =
        written.lines().into_iter().filter(|line| line.starts_with("Net: ")).map(str::to_owned).collect();
    // Empty tunnels that some kernels put into every namespace are no way out.
    assert!(!nets.iter().any(|net| net.contains("eth")), "{nets:?}");
    assert!(nets.contains(&"Net: lo".to_owned()));
}

#[tokio::test]
async fn only_tmp_and_writable_mounts_can_be_written() {
    let Some(house) = House::docker().await else { return };
    let mut spec =
        house.spec(&["write", "/new", "/tmp/new", "/ro/new", "/workspace/group/new", "/etc/hosts"]);
    spec.mounts.push(Mount {
        host: house.group(),
        inside: "/ro".to_owned(),
        access: Access::ReadOnly,
        whose: Whose::Own,
    });
    let id = house.launch_spec(&spec, b"").await;
    let written = house.written(&id).await;
    assert_eq!(
        written.lines(),
        [
            "/new: refused",
            "/tmp/new: written",
            "/ro/new: refused",
            "/workspace/group/new: written",
            "/etc/hosts: refused"
        ]
    );
}

#[tokio::test]
async fn processes_are_bounded() {
    let Some(house) = House::docker().await else { return };
    let mut spec = house.spec(&["threads", "200"]);
    spec.limits.pids = Some(20);
    let id = house.launch_spec(&spec, b"").await;
    let started: u32 = house.written(&id).await.text().trim().parse().unwrap();
    assert!((1..20).contains(&started), "{started}");
}

#[tokio::test]
async fn a_missing_image_is_told_with_how_to_build_it() {
    let Some(house) = House::docker().await else { return };
    let mut spec = house.spec(&["hang"]);
    spec.image = "g2-no-such-image:1".to_owned();
    let create = house.sandbox.create(&spec).await.unwrap_err();
    let check = house.sandbox.check(&spec.image).await.unwrap_err();
    for error in [create, check] {
        assert!(matches!(&error, SandboxError::NoImage { image } if *image == spec.image), "{error:?}");
        assert!(error.to_string().contains("g2 image build"));
    }
}

#[tokio::test]
async fn a_missing_program_ends_with_127() {
    let Some(house) = House::docker().await else { return };
    let mut spec = house.spec(&[]);
    spec.command = vec!["/no/such/program".to_owned()];
    let id = house.launch_spec(&spec, b"").await;
    assert_eq!(house.code(&id).await, 127);
    assert!(!house.written(&id).await.stderr.is_empty(), "it says why");
}

#[tokio::test]
async fn a_missing_host_folder_is_refused_and_not_made() {
    let Some(house) = House::docker().await else { return };
    let mut spec = house.spec(&["hang"]);
    let host = house.group().join("missing");
    spec.mounts.push(Mount {
        host: host.clone(),
        inside: "/extra".to_owned(),
        access: Access::ReadWrite,
        whose: Whose::Own,
    });
    let error = house.sandbox.create(&spec).await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert!(!host.exists());
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_told_with_its_socket() {
    let missing = DockerSandbox::new(Some("unix:///nowhere/docker.sock")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let deaf = dir.path().join("docker.sock");
    // A socket file that nobody listens on any more.
    drop(std::os::unix::net::UnixListener::bind(&deaf).unwrap());
    let refusing = DockerSandbox::new(deaf.to_str()).unwrap();
    for (sandbox, at) in [(missing, "/nowhere/docker.sock"), (refusing, deaf.to_str().unwrap())] {
        let error = sandbox.check("any").await.unwrap_err();
        assert!(matches!(error, SandboxError::Unreachable { .. }), "{error:?}");
        assert!(
            error.to_string().contains(at) && error.to_string().contains("is Docker running?"),
            "{error}"
        );
        assert!(sandbox.list("any").await.is_err(), "no answer is no empty list");
    }
}

#[tokio::test]
async fn the_next_daemon_adopts_a_container_with_its_output_and_its_limits() {
    let Some(mut house) = House::docker().await else { return };
    let mut spec = house.spec(&["flood", "3000000"]);
    spec.limits.output_bytes = 1 << 20;
    let flooding = house.launch_spec(&spec, b"").await;
    let silent = house.launch(&["hang"], b"").await;
    let fine = house.launch(&["flood", "3000000"], b"").await;
    house.next_daemon();
    assert_eq!(house.sandbox.list(&house.instance).await.unwrap().len(), 3);
    assert_eq!(house.written(&fine).await.stdout.len(), 3_000_000);
    let items: Vec<_> = in_time(house.sandbox.output(&flooding).collect()).await;
    assert!(matches!(items.last(), Some(Err(SandboxError::Flooded { .. }))));
    house.sandbox.stop(&silent, Duration::from_secs(60)).await.unwrap();
    assert_eq!(house.code(&silent).await, 143);
}

#[tokio::test]
async fn very_short_lines_are_ended_before_the_log_rotates() {
    let Some(house) = House::docker().await else { return };
    let mut spec = house.spec(&["echo"]);
    spec.limits.output_bytes = 400_000;
    let id = house.launch_spec(&spec, &vec![b'\n'; 300_000]).await;
    let items: Vec<_> = in_time(house.sandbox.output(&id).collect()).await;
    assert!(matches!(items.last(), Some(Err(SandboxError::Flooded { .. }))));
}
