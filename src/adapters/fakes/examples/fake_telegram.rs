//! The strict Telegram server as a program: it says its address in its first line, and leaves at the end of its standard input.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's own server")]

use tokio::{io::AsyncReadExt as _, net::TcpListener};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(g2_fakes::telegram::serve(listener));
    tokio::io::stdin().read_to_end(&mut Vec::new()).await.unwrap();
    std::process::exit(0);
}
