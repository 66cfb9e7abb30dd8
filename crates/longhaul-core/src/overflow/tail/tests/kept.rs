//! Kept bytes of a reply, and the memory that they use.

use super::*;

/// Checks whether a count at this distance from the end of a body is still read.
fn check_count(bytes_before_the_end: usize, expect: Option<u32>) {
    let begin = r#""usage":{"prompt_tokens":7},"filter":""#;
    let end = r#""}"#;
    let filler = "f".repeat(bytes_before_the_end - begin.len() - end.len());
    let reply = format!(r#"{{"text":"{}",{begin}{filler}{end}"#, "t".repeat(9_000));
    for chunk in [1, 1_000, reply.len()] {
        let found = read(reply.as_bytes(), chunk).usage.map(|usage| usage.input);
        assert_eq!(found, expect, "{bytes_before_the_end}, chunks of {chunk}");
    }
}

#[test]
fn the_last_four_kibibytes_are_read() {
    check_count(3_000, Some(7));
    check_count(4_096, Some(7));
    check_count(4_097, None);
}

#[test]
fn a_reply_of_up_to_four_kibibytes_is_kept_whole() {
    let said = |bytes: usize| {
        let filler = "f".repeat(bytes - r#"{"f":""}"#.len());
        let reply = format!(r#"{{"f":"{filler}"}}"#);
        assert_eq!(reply.len(), bytes);
        read(reply.as_bytes(), 100).has_content
    };
    // The reply has no content, but a truncated reply is assumed to have had some.
    assert!(!said(4_096));
    assert!(said(4_097));
}

#[test]
fn buffer_doubles_when_full_up_to_the_limit() {
    let mut tail = ReplyTail::new(Dialect::ChatCompletions);
    tail.push(b" ");
    assert_eq!(tail.buffer.capacity(), 0, "before anything has passed");
    let rooms: Vec<usize> = (0..45)
        .map(|_| {
            tail.push(&[b'{'; 100]);
            tail.buffer.capacity()
        })
        .collect();
    let mut expect = vec![100, 200, 400, 400];
    expect.extend([800; 4]);
    expect.extend([1_600; 8]);
    expect.extend([3_200; 16]);
    expect.extend([TAIL_BYTES; 13]);
    assert_eq!(rooms, expect);
}

#[test]
fn a_long_closing_event_is_read_from_both_its_ends() {
    let tools = "x".repeat(50_000);
    let event = |event_type: &str, details: &str| {
        format!(
            "event: response.created\ndata: {{\"type\":\"response.created\",\"response\":{{\"instructions\":\"{tools}\"}}}}\n\n\
             event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"delta\":\"a\"}}\n\n\
             event: {event_type}\ndata: {{\"type\":\"{event_type}\",\"response\":{{\"incomplete_details\":{details},\"tools\":[\"{tools}\"],\"usage\":{{\"input_tokens\":51097,\"output_tokens\":12}},\"user\":null}}}}\n\n"
        )
    };
    for (stream, expect) in [
        (event("response.completed", "null"), FinishReason::Stop),
        (event("response.incomplete", "{\"reason\":\"max_output_tokens\"}"), FinishReason::Length),
    ] {
        for end in ["", "data: [DONE]\n\n"] {
            let mut tail = ReplyTail::new(Dialect::Responses);
            let stream = [&stream, end].concat();
            stream.as_bytes().chunks(1_000).for_each(|chunk| tail.push(chunk));
            assert!(tail.is_complete());
            let reply_end = tail.finish(ClassifierRules::standard(), None);
            assert_eq!(reply_end.finish, Some(expect));
            assert_eq!(reply_end.usage.map(|usage| usage.input), Some(51_097));
        }
    }
}
