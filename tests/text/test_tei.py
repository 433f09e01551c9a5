"""TEI becomes running text: what belongs to a sentence is read once, and nothing else."""

import io

import pytest

from spacy_elmo.text.tei import LEFT_OUT, read_tei

NAMESPACE = 'xmlns="http://www.tei-c.org/ns/1.0"'


def text_of(body, left_out=LEFT_OUT, front="", back=""):
    """Return the paragraphs of a TEI file with this body."""
    parts = f"<front>{front}</front><body>{body}</body><back>{back}</back>"
    header = "<teiHeader><p>Not text.</p></teiHeader>"
    file = io.BytesIO(f"<TEI {NAMESPACE}>{header}<text>{parts}</text></TEI>".encode())
    found = read_tei(file, left_out)
    assert not found or (found[-1] == "\n" and found[-2] != "\n")
    return found.removesuffix("\n").split("\n\n") if found else []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Words within a sentence.
        ("M<hi rend='sup'>me</hi> <name>Ada</name> <foreign>sic</foreign>.", "Mme Ada sic."),
        ("chapter <ref target='#c2'>two</ref>", "chapter two"),
        ("<corr>an</corr> <reg>old</reg> <expan>Mister</expan>", "an old Mister"),
        ("un<supplied>clear</supplied>", "unclear"),
        # Notes and their marks.
        ("word<note><p>no</p></note>, next", "word, next"),
        ("word\n  <ref target='#n1'>[1]</ref>\n  !", "word\n!"),
        ("word <ref target='#n9'>(2)</ref>.", "word ."),
        ("word<ref><hi>{3}</hi></ref><ref>*</ref>.", "word."),
        ("word<ref target='#n1'>a</ref>.", "word."),
        # Versions of the same word.
        ("<choice><reg>Tür</reg><orig>Thür</orig></choice>", "Thür"),
        ("<choice>\n<corr>the</corr>\n<sic>teh</sic>\n</choice> end", "teh end"),
        ("<choice><expan>Mister</expan><abbr>Mr</abbr></choice>", "Mr"),
        ("<choice><unclear>cat</unclear><unclear>cut</unclear></choice>", "cat"),
        ("<app><rdg>b</rdg><lem>a</lem></app> <app><rdg>c</rdg><rdg>d</rdg></app><app/>", "a c"),
        ("<subst><del>old</del><add>new</add></subst>", "new"),
        # Breaks between lines, pages and sections.
        ("a<lb/>b<pb n='2'/>c<cb/>d<milestone unit='x'/>e", "a\nb\nc\nd\ne"),
        ("Be<lb break='no'/>satzung", "Besatzung"),
        ("Be\n  <pb break='no' n='3'/><lb/>\n  satzung", "Besatzung"),
        ("Be-<lb break='no'/>satzung wo- <pb break='no'/> hin", "Be-\nsatzung wo-\nhin"),
        ("Be-<fw>Page 3</fw><pb/><lb/>\nsatzung", "Be-\nsatzung"),
        # The printer or the editor put these elements between the words.
        ("a <gap><desc>two words</desc></gap> b<figure><p>c</p></figure>", "a b"),
        ("a<index><term>entry</term></index> b<!-- no --> c<?no no?>", "a b c"),
        ("<label>ANNE</label> Come.<stage>She goes.</stage>", "Come."),
        # An element for each word.
        ("<s><w>One</w><w>word</w><pc>.</pc></s><s><w>Two</w></s>", "One word . Two"),
    ],
)
def test_a_paragraph_has_the_words_of_the_page(body, expected):
    back = '<note xml:id="n1">A note.</note>'
    assert text_of(f"<p>{body}</p>", back=back) == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<head>I</head><p>One.</p><p>Two.</p><trailer>FIN</trailer>", ["One.", "Two."]),
        ("<lg><l>A verse,</l><l>A rhyme.</l></lg>", ["A verse,", "A rhyme."]),
        ("<list><item>One.</item><item>Two.</item></list>", ["One.", "Two."]),
        ("<sp><speaker>A</speaker><p>Yes.</p></sp><sp><p>No.</p></sp>", ["Yes.", "No."]),
        ("<closer><salute>Yours</salute><signed>A <hi>B</hi></signed></closer>", ["Yours", "A B"]),
        ("<quote>A <hi>b</hi> c.</quote><quote>D.</quote>", ["A b c.", "D."]),
        ("<p>He read: <q>Go.</q> She went.</p>", ["He read: Go. She went."]),
        ("<p><hi>A</hi> <hi>b</hi></p>", ["A b"]),
        # The letter is a text of its own within the text.
        ("<p>A:</p><floatingText><body><p>Dear.</p></body></floatingText>", ["A:", "Dear."]),
        # A page ends within a sentence.
        (
            "<p>cried-</p><pb/><p>he on</p><p>a day.</p><p>e. g.</p>",
            ["cried-\nhe on\na day.", "e. g."],
        ),
        ("<p>He said,</p><p>She left</p>", ["He said,", "She left"]),
    ],
)
def test_paragraphs_are_separate_and_read_once(body, expected):
    assert text_of(body) == expected


def test_front_and_back_are_read_on_demand():
    front, back = "<titlePage>A title</titlePage><p>Dear reader.</p>", "<p>Index</p>"
    assert text_of("<p>One.</p>", front=front, back=back) == ["One."]
    found = text_of("<p>One.</p>", LEFT_OUT - {"front"} | {"titlePage"}, front, back)
    assert found == ["Dear reader.", "One."]


def test_old_tei_has_no_namespace_and_a_corpus_has_several_texts():
    one = b"<TEI.2><text><body><p>One.</p></body></text></TEI.2>"
    several = b"<teiCorpus><teiHeader/>%s<facsimile>no</facsimile>%s</teiCorpus>" % (one, one)
    assert read_tei(io.BytesIO(several)) == "One.\n\nOne.\n"
    assert read_tei(io.BytesIO(b"<html><p>One.</p></html>")) == ""


def test_other_encodings_are_read():
    data = '<?xml version="1.0" encoding="latin-1"?><TEI><text><p>\xe9t\xe9</p></text></TEI>'
    assert read_tei(io.BytesIO(data.encode("latin-1"))) == "été\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<TEI><text>", "cannot be read as XML.*line 1"),
        (b"<TEI><text>&auml;</text></TEI>", "cannot be read as XML.*undefined entity"),
        (b'<?xml version="1.0" encoding="no-such"?><TEI/>', "cannot be read as XML"),
        (b"<text>" + b"<p>" * 9000 + b"</p>" * 9000 + b"</text>", "nested too deeply"),
    ],
)
def test_broken_files_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        read_tei(io.BytesIO(data))
