//! What each tool's description says.

use super::Place;

pub(super) fn send_message(_place: &Place) -> String {
    "Says something in the chat at once, while you go on working. Your last answer of a turn is sent by itself, so use \
     this only for what should be seen before that (progress on long work, a first answer), for more than one message, \
     and in a scheduled task, whose last answer is not sent. When all has been said this way, wrap your last answer in \
     <internal>…</internal>, so that it is not sent as well."
        .to_owned()
}

pub(super) fn schedule_task(place: &Place) -> String {
    format!(
        "Makes a task: a prompt that you will be given at set times.\n\n\
         TIMES are local times of the user, whose zone is {zone}: write them as the user says them, without converting. \
         cron has five fields, \"minute hour day month weekday\" (\"0 9 * * *\" is 9 in the morning in {zone}); interval \
         is a number of milliseconds, 1000 at least; once is \"YYYY-MM-DDTHH:MM:SS\" without Z and without an offset.\n\n\
         CONTEXT: with context_mode \"group\" the task runs in this chat's conversation and knows what was said here: for \
         reminders and follow-ups. With \"isolated\" it starts with nothing but its prompt and your files: for work that \
         stands alone; write everything into the prompt then.\n\n\
         MESSAGES: what a task answers is kept in its history and not sent. Say in the prompt whether and when to use \
         send_message: always (a reminder), only when there is something to tell (a check), or never (upkeep).\n\n\
         The reply names the task's id and its first run in local time (nextRunLocal): tell the user that one.",
        zone = place.zone
    )
}

pub(super) fn list_tasks(place: &Place) -> String {
    format!(
        "Lists the scheduled tasks that you may see, newest first, with id, schedule, state and next run. Times are \
         UTC instants; the user's zone is {}.",
        place.zone
    )
}

pub(super) fn cancel_task(_place: &Place) -> String {
    "Removes a scheduled task and its history for good. Find its id with list_tasks.".to_owned()
}

pub(super) fn clear_session(_place: &Place) -> String {
    "Starts the conversation afresh: what was said before is forgotten. With a name it is kept in an archive first. \
     Only when the user asks for it. Say what you have to say with send_message before: this conversation ends with \
     the call."
        .to_owned()
}
