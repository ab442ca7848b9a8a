//! Every tool. To add one: its entry here, of the same name as the command; a test asks for it.

use super::{
    Kind, Need, Param,
    Reach::{All, Own},
    Tool,
};

const CHAT: &str = "Another chat's address. Left out: the chat you are in.";
const FOLDER: &str = "Another group's folder. Left out: your own.";
const TASK: Param = required("task_id", "taskId", "The task's id, as list_tasks shows it.");
const WHOSE: Param = param(
    "target_folder",
    "targetFolder",
    Kind::Text,
    Need::Main,
    "The folder of the group whose task it is. Left out: your own, otherwise the only one of that id.",
);
const TYPE: &str = "cron: at set times; interval: every so often; once: at one time.";
const VALUE: &str = "cron: \"0 9 * * 1-5\"; interval: \"2h\" (also \"15m\", \"1d12h\"); once: \"2026-12-31T18:30:00\" (local time, no Z).";
const TYPES: &[&str] = &["cron", "interval", "once"];

pub(super) static TOOLS: &[Tool] = &[
    Tool {
        name: "send_message",
        whose: Own,
        text: "Says something in the chat at once, while you go on working. Your last answer of a turn is sent by itself \
               (what you write before a tool call is not), so use this only for what should be seen before that: progress \
               on long work, a first answer, a second message; and in a scheduled task, whose last answer is not sent. \
               When all has been said this way, wrap your last answer in <internal>…</internal>, so that it is not sent \
               as well.",
        params: &[
            required(
                "text",
                "text",
                "What to say. Parts in <internal>…</internal> are not sent; nor is what follows an <internal> that is not closed.",
            ),
            optional(
                "sender",
                "sender",
                "A name to speak under, for example of a role in a team. Leave it out to speak as yourself.",
            ),
            optional(
                "reply_to",
                "replyTo",
                "The id of the message that is answered, where the chat has such ids.",
            ),
            param("chat_jid", "chatJid", Kind::Text, Need::Chat, CHAT),
        ],
    },
    Tool {
        name: "send_media",
        whose: Own,
        text: "Shows a file of yours in the chat: a picture, a film, sound or any other file. It is copied at once, so you \
               may change or remove it afterwards. At most 25 MiB, unless the user has set another limit.",
        params: &[
            required(
                "file_path",
                "filePath",
                "The file, below /workspace/group: \"/workspace/group/chart.png\", or \"chart.png\".",
            ),
            param(
                "media_type",
                "mediaType",
                Kind::Choice(&["image", "video", "audio", "document"]),
                Need::Required,
                "As what it is shown. document: as a file to be kept, in full quality.",
            ),
            optional("caption", "caption", "A text with it."),
            optional(
                "mimetype",
                "mimetype",
                "Its media type, as \"image/png\". Left out, its contents decide.",
            ),
            param("chat_jid", "chatJid", Kind::Text, Need::Chat, CHAT),
        ],
    },
    Tool {
        name: "ask_user",
        whose: Own,
        text: "Asks the people of the chat you are in, with buttons where the chat has them. The call returns at once: the answer \
               comes later as a message that quotes the question, and a message tells you when nobody answers in time. End \
               your turn when nothing can be done before the answer. Answers in other words than the options come, too. Use it \
               where you need a decision or a fact that only they have, one question at a time.",
        params: &[
            required("question", "question", "The question, at most 2000 characters."),
            param(
                "options",
                "options",
                Kind::Texts,
                Need::Optional,
                "Answers to choose from: at most ten, each of at most 60 characters.",
            ),
            optional(
                "timeout",
                "timeout",
                "How long it may be answered, from \"1m\" to \"7d\". Default: a day.",
            ),
        ],
    },
    Tool {
        name: "schedule_task",
        whose: Own,
        text: "Makes a task: a prompt that you will be given at set times.\n\n\
               TIMES are local times of the user, whose zone is {zone}: write them as the user says them, without \
               converting. cron has five fields, \"minute hour day month weekday\" (\"0 9 * * *\" is 9 in the morning in \
               {zone}); interval is a duration, \"15m\", \"2h\" or \"1d12h\", 1s at least; once is \"YYYY-MM-DDTHH:MM:SS\" without Z and \
               without an offset, and not in the past.\n\n\
               CONTEXT: with context_mode \"group\" the task runs in this chat's conversation and knows what was said \
               here: for reminders and follow-ups. With \"isolated\" it starts with nothing but its prompt and your files: \
               for work that stands alone; write everything into the prompt then.\n\n\
               MESSAGES: what a task answers is kept in its history and not sent. Say in the prompt whether and when to \
               use send_message: always (a reminder), only when there is something to tell (a check), or never (upkeep).\n\n\
               The reply names the task's id and its first run in local time (nextRunLocal) and the schedule in plain words \
               (scheduleInWords): tell the user both.",
        params: &[
            required(
                "prompt",
                "prompt",
                "What you will be told when the task runs. In isolated mode it must hold all that you need to know.",
            ),
            param("schedule_type", "schedule_type", Kind::Choice(TYPES), Need::Required, TYPE),
            required("schedule_value", "schedule_value", VALUE),
            param(
                "context_mode",
                "context_mode",
                Kind::Choice(&["group", "isolated"]),
                Need::Else("group"),
                "group: in this chat's conversation, with its history; isolated: in a fresh one. Default: group.",
            ),
            optional(
                "script",
                "script",
                "A bash script that runs first; its last line {\"wakeAgent\": true|false, \"data\": …} decides whether you are woken.",
            ),
            param(
                "catch_up",
                "catchUp",
                Kind::Choice(&["latest", "all", "skip"]),
                Need::Optional,
                "What happens to times that were missed while the host was down: the latest is run (latest, the default), the latest 24 are, a minute apart (all), or none is (skip).",
            ),
            param(
                "catch_up_window_ms",
                "catchUpWindowMs",
                Kind::Number,
                Need::Optional,
                "How long ago a missed time may be for it to be made up for, milliseconds. Default: 7 days.",
            ),
            param(
                "target_group_jid",
                "targetJid",
                Kind::Text,
                Need::Main,
                "The chat of another group that the task is for. Left out: the chat you are in.",
            ),
        ],
    },
    Tool {
        name: "list_tasks",
        whose: Own,
        text: "Lists the scheduled tasks that you may see, newest first, with id, schedule, its plain words (scheduleInWords), state and next run. Times are \
               UTC instants; the user's zone is {zone}. Where there are more than one answer holds, it says `next`: call again with that as after.",
        params: &[
            param("limit", "limit", Kind::Number, Need::Optional, "How many to list at most."),
            param(
                "after",
                "after",
                Kind::Number,
                Need::Optional,
                "The `next` of the answer before: lists what follows it.",
            ),
            param(
                "target_folder",
                "targetFolder",
                Kind::Text,
                Need::Main,
                "Only the tasks of the group with this folder.",
            ),
        ],
    },
    Tool {
        name: "update_task",
        whose: Own,
        text: "Changes a scheduled task; what you leave out stays as it is. Times are local times of the user, whose zone \
               is {zone}, as for schedule_task. The reply names the next run: tell the user that one.",
        params: &[
            TASK,
            WHOSE,
            optional("prompt", "prompt", "The new prompt."),
            param("schedule_type", "schedule_type", Kind::Choice(TYPES), Need::Optional, TYPE),
            optional("schedule_value", "schedule_value", VALUE),
            optional("script", "script", "The new script; an empty one removes it."),
        ],
    },
    Tool {
        name: "pause_task",
        whose: Own,
        text: "Lets a scheduled task rest until resume_task. It stays in the list, and nothing is lost of it.",
        params: &[TASK, WHOSE],
    },
    Tool {
        name: "resume_task",
        whose: Own,
        text: "Lets a paused task go on. Times that passed while it rested are not made up for.",
        params: &[TASK, WHOSE],
    },
    Tool {
        name: "cancel_task",
        whose: Own,
        text: "Removes a scheduled task and its history for good. Find its id with list_tasks. To let it rest only, pause \
               it.",
        params: &[TASK, WHOSE],
    },
    Tool {
        name: "register_group",
        whose: All,
        text: "Gives a chat an agent of its own, with its own folder and memory. Chats that can be registered are in \
               /workspace/ipc/available_groups.json; refresh_groups brings that up to date. Only when the user asks for \
               it.",
        params: &[
            required("jid", "jid", "The chat's address, as available_groups.json has it."),
            required("name", "name", "What the group is called."),
            required(
                "folder",
                "folder",
                "The folder of its memory: lower case, words joined by dashes or underscores, as \"family-chat\".",
            ),
            required("trigger", "trigger", "The word that calls the agent there, as \"@Andy\"."),
            param(
                "requires_trigger",
                "requiresTrigger",
                Kind::Flag,
                Need::Optional,
                "false: every message is answered, for a chat with one person. Left out: only those that call the agent.",
            ),
        ],
    },
    Tool {
        name: "refresh_groups",
        whose: All,
        text: "Asks the platforms which chats there are, and lists all that are known; lastActivity is null where nobody has \
               spoken.",
        params: &[],
    },
    Tool {
        name: "clear_session",
        whose: Own,
        text: "Starts the conversation afresh: what was said before is forgotten. With a name it is kept in an archive \
               first. Only when the user asks for it. Say what you have to say with send_message before: this \
               conversation ends with the call.",
        params: &[
            optional("name", "name", "A name to keep the conversation under. Left out, it is not kept."),
            param("target_folder", "targetFolder", Kind::Text, Need::Main, FOLDER),
        ],
    },
    Tool {
        name: "resume_session",
        whose: Own,
        text: "Goes back to an archived conversation, found with search_sessions or in \
               /workspace/ipc/session_history.json. Only when the user asks for it. Say what you have to say with \
               send_message before: this conversation ends with the call.",
        params: &[
            param(
                "session_history_id",
                "sessionHistoryId",
                Kind::Number,
                Need::Required,
                "The archive's id: a number.",
            ),
            optional(
                "save_name",
                "saveName",
                "A name to keep the present conversation under. Left out, it is not kept.",
            ),
            param("target_folder", "targetFolder", Kind::Text, Need::Main, FOLDER),
        ],
    },
    Tool {
        name: "search_sessions",
        whose: Own,
        text: "Searches the archived conversations, names and contents, and shows where the words are. Use it when the \
               user speaks of something that you do not remember.",
        params: &[
            required("query", "query", "The words to look for."),
            param("limit", "limit", Kind::Number, Need::Optional, "How many to show at most."),
            param("target_folder", "targetFolder", Kind::Text, Need::Main, FOLDER),
        ],
    },
    Tool {
        name: "archive_session",
        whose: Own,
        text: "Puts a text into the archive of conversations, where search_sessions finds it. Conversations are archived \
               by themselves before they are shortened; this is for what you want to be found under a name of its own.",
        params: &[
            required("session_id", "sessionId", "The id of the conversation that it belongs to."),
            required("name", "name", "The name to find it under."),
            optional("content", "content", "The text to keep."),
        ],
    },
];

const fn param(name: &'static str, field: &'static str, kind: Kind, need: Need, text: &'static str) -> Param {
    Param { name, field, kind, need, text }
}

const fn required(name: &'static str, field: &'static str, text: &'static str) -> Param {
    param(name, field, Kind::Text, Need::Required, text)
}

const fn optional(name: &'static str, field: &'static str, text: &'static str) -> Param {
    param(name, field, Kind::Text, Need::Optional, text)
}
