"""Tests of the arena itself: python3 bench/arena check. They need neither longhaul nor a peer."""

import json
import pathlib
import tempfile
import unittest

import cache
import figures
import items
import peer_worker
import picture
import replay
import sessions
import validity
import ways
from sessions import CHAT, MESSAGES, RESPONSES

SHORT = {CHAT: "oh-my-posh-0289", RESPONSES: "skills-0aecff69", MESSAGES: "oh-my-posh-32e7c00e"}


def session(api):
    """A short recorded session of an API."""
    return sessions.load("all", api, (SHORT[api],))[0]


def tokens(count, letter="a"):
    """A text of so many tokens."""
    return letter * (count * cache.CHARACTERS)


class Automatic(unittest.TestCase):
    def take(self, *bodies):
        kept = cache.Automatic()
        return [kept.take({}, body) for body in bodies]

    def test_a_prefix_is_read_in_steps_of_128_tokens(self):
        first, second = self.take([tokens(2_000)], [tokens(2_000), tokens(500, "b")])
        self.assertEqual((first.new, first.read, first.written), (80, 0, 1_920))
        self.assertEqual((second.new, second.read, second.written), (68, 1_920, 512))

    def test_below_the_least_size_nothing_is_read_or_stored(self):
        for one in self.take([tokens(1_000)], [tokens(1_000)]):
            self.assertEqual((one.new, one.read, one.written), (1_000, 0, 0))

    def test_a_change_costs_all_behind_it(self):
        _, second = self.take([tokens(1_280), tokens(1_280, "b")], [tokens(1_280), "c", tokens(1_280, "b")])
        self.assertEqual((second.read, second.written), (1_280, 1_280))

    def test_a_change_at_the_front_costs_everything(self):
        _, second = self.take([tokens(2_560)], ["c", tokens(2_560)])
        self.assertEqual(second.read, 0)

    def test_any_earlier_prefix_is_found(self):
        *_, third = self.take([tokens(1_280)], ["c", tokens(1_280)], [tokens(1_280)])
        self.assertEqual(third.read, 1_280)


class Marked(unittest.TestCase):
    def body(self, *texts, marks=(), automatic=True):
        blocks = [{"type": "text", "text": text} | ({"cache_control": {}} if at in marks else {}) for at, text in enumerate(texts)]
        for at in marks:
            blocks[at]["cache_control"] = {"type": "ephemeral"}
        found = {"messages": [{"role": "user", "content": blocks}]}
        return found | ({"cache_control": {"type": "ephemeral"}} if automatic else {})

    def take(self, *bodies):
        kept = cache.Marked()
        return [kept.take(body, []) for body in bodies]

    def test_what_a_mark_stored_is_read_by_the_next_request(self):
        first, second = self.take(self.body(tokens(600)), self.body(tokens(600), tokens(600)))
        self.assertEqual((first.new, first.read), (0, 0))
        self.assertEqual((second.new, second.read), (0, first.written))
        self.assertGreater(second.written, 600)

    def test_without_a_mark_nothing_is_cached(self):
        for one in self.take(*[self.body(tokens(600), automatic=False)] * 2):
            self.assertEqual((one.read, one.written), (0, 0))

    def test_a_prefix_below_the_least_size_is_not_stored(self):
        self.assertEqual(self.take(*[self.body(tokens(400))] * 2)[1].read, 0)

    def test_a_mark_searches_twenty_positions(self):
        start, more = tokens(600), [f"{at}" for at in range(30)]
        for count, found in ((19, True), (20, False)):
            _, second = self.take(self.body(start), self.body(start, *more[:count]))
            self.assertEqual(second.read > 0, found, count)

    def test_a_mark_does_not_change_the_prefix(self):
        _, second = self.take(self.body(tokens(600), marks=(0,), automatic=False), self.body(tokens(600), tokens(600)))
        self.assertGreater(second.read, 0)

    def test_a_change_behind_an_own_mark_costs_what_stands_behind_it(self):
        head, rest = tokens(600), tokens(600)
        _, second = self.take(self.body(head, rest, marks=(0,)), self.body(head, "c" + rest, marks=(0,)))
        self.assertTrue(600 < second.read < 620)


class Prices(unittest.TestCase):
    def test_each_kind_of_token_has_its_price(self):
        used = cache.Input(1_000_000, 2_000_000, 4_000_000)
        self.assertAlmostEqual(used.dollars(cache.Price(4, 0.4, 5)), 4 + 0.8 + 20)

    def test_the_models_are_in_the_table_and_a_free_write_costs_as_new_input(self):
        for api, (model, provider) in cache.MODELS.items():
            found = cache.price(model, provider)
            self.assertLess(found.read, found.new, api)
        self.assertEqual(cache.price("gpt-5.5", "openai").write, cache.price("gpt-5.5", "openai").new)


class Rules(unittest.TestCase):
    def test_every_rule_is_one_of_the_project_s(self):
        for api, file in validity.FILES.items():
            known = {rule["id"] for rule in json.loads((sessions.FIXTURES / file).read_text())["rules"]}
            named = set(validity.NAMES[api])
            self.assertFalse(named - known, api)

    def test_recorded_sessions_obey_and_half_a_step_does_not(self):
        for api in sessions.Api:
            one = session(api)
            self.assertEqual(validity.broken(api, {**one.body, api.member: one.items}), [], api)
            answer = next(at for at, item in enumerate(one.items) if items.answers_call(api, item))
            without = one.items[:answer] + [items.user(api, "go on")]
            alone = [*one.items[: items.head_length(one)], one.items[answer]]
            for broken in (without, alone):
                self.assertTrue(validity.broken(api, {**one.body, api.member: broken}), api)

    def test_an_empty_text_and_a_fifth_mark_are_seen(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        content = [{"type": "text", "text": "a", **mark} for _ in range(5)] + [{"type": "text", "text": ""}]
        self.assertEqual(validity.broken(MESSAGES, {"messages": [{"role": "user", "content": content}]}), ["m-cache-4", "m-text-nonempty"])

    def test_what_is_no_request_is_said_so(self):
        self.assertTrue(validity.broken(CHAT, {"messages": [{"content": "a"}]}))


class Ways(unittest.TestCase):
    def test_every_way_forwards_valid_requests_and_cuts_stay_within_their_size(self):
        for api in sessions.Api:
            one = session(api).with_short_head()
            window = 8_000
            for way in ways.LOCAL:
                found = list(way.requests(one, window))
                self.assertEqual([request.step for request in found], one.steps(), way.name)
                for request in found:
                    self.assertEqual(validity.broken(api, request.body), [], (api, way.name))
                sizes = [items.size(request.body[api.member]) for request in found]
                if "may exceed" not in way.note and way.name not in ("none", "masking (in steps)"):
                    self.assertLess(max(sizes), window, (api, way.name))

    def test_units_join_to_all_items(self):
        for api in sessions.Api:
            one = session(api)
            self.assertEqual(sum(items.units(api, one.items), []), one.items, api)

    def test_a_size_is_kept_and_nearly_filled(self):
        for api in sessions.Api:
            one = session(api).with_short_head()
            for fit in (ways.newest, ways.head_and_tail):
                size = 5_000
                found = items.size(fit(one, one.steps()[-1][0], size))
                self.assertTrue(0.6 * size < found <= 1.05 * size, (api, fit.__name__, found))

    def test_cuts_in_steps_break_seldom_and_sliding_ones_often(self):
        one = session(CHAT).with_short_head()
        case = replay.prepare(one, 0, 8_000)
        replay.own(case, ways.LOCAL[0])
        often, seldom = (replay.own(case, way)["breaks"] for way in ways.LOCAL[1:3])
        self.assertGreater(often, 2 * seldom)


class Replay(unittest.TestCase):
    def test_the_whole_history_costs_one_and_keeps_everything(self):
        for api in sessions.Api:
            case = replay.prepare(session(api).with_short_head(), 0, 8_000)
            found = replay.own(case, ways.LOCAL[0])
            self.assertEqual(found["dollars"], found["unchanged"], api)
            for name in ("far", "rules"):
                self.assertEqual(found[name][0], found[name][1], (api, name))
            self.assertGreater(found["rules"][1], 0, api)
            self.assertEqual((found["breaks"], found["invalid"]), (0, 0), api)

    def test_calls_for_summaries_are_paid(self):
        case = replay.prepare(session(CHAT).with_short_head(), 0, 8_000)
        replay.own(case, ways.LOCAL[0])
        measure = replay.Measure(case, "calls", "own")
        step = case.session.steps()[0]
        body = {"messages": case.session.items[: step[0]]}
        measure.add(ways.Request(step, body, 0.0, [{"messages": [{"role": "user", "content": tokens(1_000)}]}]))
        self.assertGreater(measure.result()["dollars"], 1_000 * measure.price.new / 1e6)

    def test_a_way_at_equal_size_breaks_where_the_other_broke(self):
        case = replay.prepare(session(CHAT).with_short_head(), 0, 8_000)
        none, _, steps_of, *_ = ways.LOCAL
        replay.own(case, none)
        first = replay.own(case, steps_of, sets_sizes=True)
        second = replay.equal(case, next(way for way in ways.LOCAL if way.name == "head and tail"))
        self.assertEqual(first["breaks"], second["breaks"])
        self.assertAlmostEqual(first["tokens"] / second["tokens"], 1, delta=0.15)


class Figures(unittest.TestCase):
    def row(self, name, way="a", dollars=1.0, far=(1, 2)):
        known = {"window": 1, "api": "chat", "mode": "own", "requests": 2, "of": 2, "fit": 2, "breaks": 1, "tokens": 8, "broken": {}}
        more = {"unchanged": 2.0, "rules": [1, 4], "invalid": 0, "seconds": 0.5}
        return {**known, **more, "session": name, "way": way, "dollars": dollars, "far": list(far)}

    def test_figures_are_sums_over_sessions(self):
        found = figures.measured([self.row("a", far=(1, 1)), self.row("b", dollars=3.0, far=(0, 3))])
        self.assertEqual((found["cost"], found["far"], found["rules"]), (1.0, 0.25, 0.25))
        self.assertEqual((found["tokens"], found["breaks"], found["milliseconds"]), (4, 1, 250))

    def test_an_interval_holds_its_figure_and_one_session_has_none(self):
        many = figures.with_intervals([self.row(str(at), dollars=at) for at in range(1, 5)])
        low, high = many["cost_interval"]
        self.assertTrue(low < many["cost"] < high)
        self.assertEqual(figures.with_intervals([self.row("a")])["cost_interval"], (0.5, 0.5))

    def test_whole_sessions_are_resampled(self):
        # Steps of one session are alike: twice as many rows of it make no interval narrower.
        found = figures.with_intervals([self.row("a", far=(0, 10)), self.row("b", far=(10, 10))])
        self.assertEqual(found["far_interval"], (0.0, 1.0))

    def test_the_front_has_what_nothing_beats(self):
        def way(cost, far, fit=1.0):
            return {"cost": cost, "far": far, "fit": fit}

        found = {"cheap": way(0.2, 0.1), "good": way(0.5, 0.9), "beaten": way(0.6, 0.9), "worse": way(0.3, 0.05), "dead": way(0.1, 1, 0.5)}
        self.assertEqual(figures.front(found, "far"), ["cheap", "good"])

    def test_the_table_and_the_picture_name_every_way(self):
        rows = [self.row(name, way, cost) for way, cost in (("none", 2.0), ("a & b", 1.0)) for name in ("s", "t")]
        found = figures.summary(rows, ["none", "a & b"])
        text = figures.render(found, {"none": "all", "a & b": "some"})
        self.assertIn("| **a & b** * | 0.50 (0.50, 0.50) | 1.0 | 4 | 25% (25, 25) | 50% (50, 50) | 100% | 0 | 250.0 |", text)
        self.assertIn("a &amp; b", picture.draw(found))

    def test_the_way_that_sets_the_sizes_stands_beside_the_others(self):
        rows = [self.row("s", "auto"), self.row("s", "b"), {**self.row("s", "b"), "mode": "equal"}]
        found = figures.summary(rows, ["auto", "b"])
        self.assertEqual([sorted(one["ways"]) for one in found["tables"]], [["auto", "b"], ["auto", "b"]])

    def test_losses_are_those_above_the_whole_history(self):
        def score(way, nats):
            return {"sid": "s", "step": 1, "way": way, "nats": nats, "n": 10}

        found = figures.scored([score("whole history", 1.0), score("longhaul", 3.0)])
        self.assertEqual(found["auto"]["nats"], 0.2)

    def test_every_session_has_a_source_and_a_licence(self):
        played = {(api.title, one.name) for api in sessions.Api for one in sessions.load("all", api)}
        found = figures.sources(played)
        self.assertEqual(len(found), len(played))
        self.assertTrue(all(one["licence"].startswith(("MIT", "Apache-2.0")) for one in found.values()))


class Worker(unittest.TestCase):
    def test_items_that_go_on_as_they_came_are_answered_by_position(self):
        came = [{"a": 1}, {"a": 1}, {"b": 2}]
        self.assertEqual(peer_worker.positions(came, [came[0], came[2], {"c": 3}]), [0, 2, {"c": 3}])
        self.assertEqual(peer_worker.positions(came, json.loads(json.dumps(came))), [0, 1, 2])

    def test_a_conversation_grows_by_what_is_new(self):
        class Last:
            def open(self, asked):
                pass

            def forwarded(self, body, limit):
                return body["messages"][-limit:]

        lines = [{"op": "open", "body": {}, "member": "messages"}, {"op": "step", "new": ["a", "b"], "limit": 1}]
        lines.append({"op": "step", "new": ["c"], "limit": 2})
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out"
            with file.open("w") as out:
                peer_worker.serve(Last(), map(json.dumps, lines), out)
            answers = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([answer.get("items") for answer in answers], [None, [1], [1, 2]])
