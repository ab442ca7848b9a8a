//! `g2-agent mcp`: the tools for agents that we do not drive, as an MCP server on stdin and stdout.
//!
//! The only place in the runner with an async runtime: the protocol is the SDK's business, and a thread of its own
//! sends the commands, one after the other. Text on stderr is for people.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::{RequestContext, ServerInitializeError, serve_server},
    transport::async_rw::AsyncRwTransport,
};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    mailbox::Mailbox,
    runner::chain,
    seat::{BadSeat, McpSeat},
    tools::{self, Answer, Asker, Place},
    world::Machine,
};
use ipc_handlers::token::RunToken;

/// The longest line that is taken from a client, bytes; one that is longer is passed over.
const LINE_LIMIT: usize = 64 << 20;

/// Serves the tools until the client leaves; the whole of `g2-agent mcp`.
#[must_use]
pub fn serve() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}", chain(&e));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error(transparent)]
    Seat(#[from] BadSeat),
    #[error("starting to serve failed")]
    Runtime(#[source] std::io::Error),
    #[error("the client did not begin as MCP does")]
    Begin(#[source] Box<ServerInitializeError>),
}

fn run() -> Result<(), McpError> {
    let seat = McpSeat::from_env()?;
    // Its commands carry no token: what the agent's own child process is given, the agent could read.
    let mailbox = Mailbox::new(
        Arc::new(Machine),
        &seat.ipc,
        &format!("mcp{}", std::process::id()),
        seat.reply_timeout_ms,
        RunToken::default(),
    );
    let (calls, asked) = channel();
    thread::Builder::new()
        .name("mailbox".to_owned())
        .spawn(move || send(&asked, &mailbox))
        .map_err(McpError::Runtime)?;
    let server = Server { place: Arc::new(seat.place), calls };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(McpError::Runtime)?;
    let served = runtime.block_on(async {
        let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout())
            .with_max_line_length(LINE_LIMIT);
        match serve_server(server, transport).await {
            // Live calls are still answered for some seconds after the client closes its end.
            Ok(service) => drop(service.waiting().await),
            Err(ServerInitializeError::ConnectionClosed(_)) => {}
            Err(e) => return Err(McpError::Begin(Box::new(e))),
        }
        Ok(())
    });
    // A reply that is still waited for must not hold the process.
    runtime.shutdown_background();
    served
}

/// A call, and where its answer goes.
struct Call {
    command: Value,
    answer: oneshot::Sender<Answer>,
}

fn send(calls: &Receiver<Call>, mailbox: &Mailbox) {
    let mut asker = Asker::new(mailbox);
    for Call { command, answer } in calls {
        // A call that was taken back before its turn asks for nothing.
        if !answer.is_closed() {
            let _ = answer.send(asker.ask(command));
        }
    }
}

struct Server {
    place: Arc<Place>,
    calls: Sender<Call>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(tools::SERVER, env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::listed(&self.place).into_iter().map(serde_json::from_value).collect();
        let wrong = |e: serde_json::Error| ErrorData::internal_error(e.to_string(), None);
        Ok(ListToolsResult::with_all_items(Result::map_err(tools, wrong)?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let command = match tools::command(&request.name, &arguments, &self.place) {
            Ok(command) => command,
            Err(words) => return Ok(told(Answer::Refused(words))),
        };
        let (answer, answered) = oneshot::channel();
        // Nothing is awaited before this: commands are written in the order of the calls.
        let _ = self.calls.send(Call { command, answer });
        match context.ct.run_until_cancelled(answered).await {
            Some(Ok(answer)) => Ok(told(answer)),
            Some(Err(_)) => Err(ErrorData::internal_error("nobody sends commands any more", None)),
            None => Err(ErrorData::internal_error("the call was taken back", None)),
        }
    }
}

fn told(answer: Answer) -> CallToolResponse {
    let content = |text| vec![ContentBlock::text(text)];
    match answer {
        Answer::Done(text) => CallToolResult::success(content(text)),
        Answer::Refused(text) => CallToolResult::error(content(text)),
    }
    .into()
}
