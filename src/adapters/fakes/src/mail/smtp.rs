//! The way out.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Shutdown, TcpStream},
};

use super::{Fault, Handed, Shared, USER};

pub(super) fn attend(shared: &Shared, mut out: TcpStream) -> io::Result<()> {
    let mut input = BufReader::new(out.try_clone()?);
    let mut say = |line: &str| out.write_all(format!("{line}\r\n").as_bytes());
    say("220 ready")?;
    let (mut let_in, mut from, mut to) = (false, String::new(), Vec::new());
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end();
        let upper = line.to_ascii_uppercase();
        let address = || line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        if upper.starts_with("EHLO") {
            say("250-us.example\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN")?;
        } else if let Some(given) = line.strip_prefix("AUTH PLAIN ") {
            let password = shared.world().password.clone();
            let_in = decoded(given) == format!("\0{USER}\0{password}").into_bytes();
            say(if let_in { "235 in" } else { "535 5.7.8 Authentication failed" })?;
        } else if upper == "QUIT" {
            say("221 bye")?;
            return Ok(());
        } else if !let_in {
            say("530 log in first")?;
        } else if upper.starts_with("MAIL FROM:") {
            (from, to) = (address(), Vec::new());
            say("250 yes")?;
        } else if upper.starts_with("RCPT TO:") {
            match shared.world().fault(|fault| matches!(fault, Fault::Recipient(_))) {
                Some(Fault::Recipient(code)) => say(&format!("{code} nobody here"))?,
                _ => {
                    to.push(address());
                    say("250 yes")?;
                }
            }
        } else if upper == "DATA" {
            if shared.world().fault(|fault| fault == Fault::CutBeforeMail).is_some() {
                return input.get_ref().shutdown(Shutdown::Both);
            }
            say("354 go on")?;
            let mut text = String::new();
            loop {
                let mut line = String::new();
                if input.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line == ".\r\n" {
                    break;
                }
                text.push_str(line.strip_prefix('.').unwrap_or(&line));
            }
            let mut world = shared.world();
            let ends = [Fault::CutAfterMail, Fault::CutInsteadOfMail];
            let fault = world.fault(|fault| ends.contains(&fault) || matches!(fault, Fault::Mail(_)));
            if matches!(fault, None | Some(Fault::CutAfterMail)) {
                world.handed.push(Handed { from: from.clone(), to: to.clone(), text });
            }
            drop(world);
            shared.changed.notify_all();
            match fault {
                None => say("250 taken")?,
                Some(Fault::Mail(code)) => say(&format!("{code} not now"))?,
                Some(_) => return input.get_ref().shutdown(Shutdown::Both),
            }
        } else {
            say("502 what")?;
        }
    }
}

/// Reads base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for value in text.bytes().filter_map(|c| DIGITS.iter().position(|digit| *digit == c)) {
        bits = (bits << 6) | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from((bits >> count) & 255).unwrap());
        }
    }
    out
}
