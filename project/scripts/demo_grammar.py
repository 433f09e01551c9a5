"""Word lists and sentence frames of the demo data (see demo_data.py).

A frame is a line of tokens. Tokens in braces are slots: those in SHARED say nothing about the
answer, N and M are names, W is a word with several senses, and the slots in capitals below are
the cues that the answer hangs on. All words and sentences here were made up for this demo.
"""

# --- Words that go with every answer -------------------------------------------------------

SHARED = {
    "people": """the neighbours / our friends / the visitors / the reporters / my cousins /
        the students / the critics / many readers / the twins / both sisters / some people /
        the others / the old men / our guests / most listeners""",
    "person": """the accountant / the ranger / my aunt / the teacher / her brother / the painter /
        the doctor / an old man / the driver / our neighbour / the gardener / a student /
        the lawyer / the cook / his daughter / the sailor / the hiker / the clerk / a tourist /
        the farmer""",
    "said": "said / wrote / argued / believed / insisted / thought / claimed",
    "talked": """talked about / complained about / read about / heard about / wrote about /
        argued about / asked about / thought about / joked about""",
    "time": """last week / last autumn / on Monday / on Friday / two years ago / that evening /
        in the end / before the war / in December / at the weekend / a long time ago / in June /
        the day before / yesterday / last Tuesday""",
    "adj": """small / famous / quiet / remarkable / modest / strange / proud / popular / little /
        respected / typical / real / promising / forgotten""",
    "saw": "noticed / remembered / reported / explained / discovered / mentioned / doubted",
    "how": """slowly / at once / to the left / to the right / very gently / with great care /
        again and again / in a hurry""",
}

NAMES = """Jordan / Paris / Florence / Washington / Sydney / Georgia / Lincoln / Ford / Chelsea /
    Austin / Madison / Morgan / Hudson / Houston / Dallas / Vienna / Siena / Carson / Dakota /
    Phoenix / Bradford / Clifton / Lancaster / Hamilton / Wellington / Nelson / Raleigh / Kent /
    Preston / Stanley / Warwick / Wells / Sterling / Marlow / San Martin / Saint Clair /
    Van Buren / La Porte / Del Monte"""
# Rare and invented names: the first are in the LM text, the second only in dev and test sets.
RARE_NAMES = """Orvella / Brantwick / Sel Amar / Quenby / Tolmara / Verrick / Ysolde / Kesterly /
    Dunmarrow / Alvarone / Port Hesper / Corriba"""
NEW_NAMES = """Zantoria / Fellbrook / Mirado / Ostrander / Halvane / Perriwell / Saint Orrin /
    Ulmeric / Casterwyn / Belvoria / Del Toro / Nimrath"""

# --- Names: PERSON, PLACE or FIRM ------------------------------------------------------------

NER = {
    "PERSON": {
        # what one talks about
        "E": """wedding / divorce / haircut / diary / accent / childhood / operation / pregnancy /
            birthday / diet / tattoo / beard / wig / memoir / migraine / illness / sunburn /
            engagement / retirement / autobiography""",
        # what kind of thing it is
        "K": """singer / plumber / nurse / poet / dentist / goalkeeper / violinist / actor /
            carpenter / sculptor / barber / midwife / novelist / comedian / widow / toddler""",
        # what was done to it
        "P": """baptised / hypnotised / bullied / arrested / married / scolded / kissed / hugged /
            orphaned / tickled / knighted / widowed / educated / vaccinated / christened /
            kidnapped""",
    },
    "PLACE": {
        "E": """harbour / carnival / earthquake / flood / skyline / cathedral / airport / climate /
            castle / tramway / beach / zoo / museum / mosque / snow / fog / drought / aquarium /
            slum / fortress""",
        "K": """town / village / port / island / province / suburb / resort / county / region /
            city / capital / peninsula / hamlet / parish / borough / colony""",
        "P": """flooded / bombed / besieged / rebuilt / annexed / evacuated / conquered / paved /
            colonised / populated / blockaded / occupied / liberated / fortified / settled /
            irrigated""",
    },
    "FIRM": {
        "E": """merger / dividend / bankruptcy / takeover / recall / audit / profit / turnover /
            patent / subsidiary / brand / logo / payroll / invoice / warranty / flotation /
            acquisition / boardroom / revenue / budget""",
        "K": """brewery / insurer / retailer / airline / publisher / supplier / manufacturer /
            wholesaler / carmaker / conglomerate / distributor / bakery / shipbuilder / lender /
            brokerage / chain""",
        "P": """acquired / audited / nationalised / delisted / liquidated / privatised /
            incorporated / floated / refinanced / undervalued / taxed / subsidised / outbid /
            deregulated / capitalised / franchised""",
    },
}

# One cue a name, before or after it, near or far away.
NER_ONE = [
    "{people} {talked} the {E} of {N} {time} .",
    "the {E} surprised {N} {time} .",
    "{N} and the {E} were in the papers {time} .",
    "a {K} called {N} was in the papers {time} .",
    "{people} {talked} a {adj} {K} called {N} .",
    "{people} {said} that {N} is a {K} .",
    "{N} was {P} {time} .",
    "{people} {said} {time} that {N} had been {P} .",
    "because of the {E} , {people} {talked} {N} {time} .",
    "the {E} was a surprise , {people} {said} , but everyone still liked {N} .",
    "{N} , as {people} {said} {time} , will be remembered for the {E} .",
    "{people} read about the {E} {time} and could not stop thinking about {N} .",
    "{N} , {people} {said} {time} , is a {adj} {K} .",
    "they were looking for a {adj} {K} , and {people} told them about {N} .",
    "{N} , as {people} remember , was {P} {time} .",
    "had {N} not been {P} , {people} would have forgotten everything .",
]
NER_TWO = [
    "because of the {E} , {people} {talked} {N} , a {adj} {K} .",
    "{N} , a {adj} {K} , was {P} {time} .",
    "{N} , {people} {said} , was {P} {time} because of the {E} .",
    "after the {E} , {people} {said} , {N} was {P} .",
    "the {E} was news to {people} , who knew {N} as a {adj} {K} .",
    "{people} knew {N} as a {adj} {K} long before the {E} .",
    "a {adj} {K} called {N} was {P} {time} .",
    "the {E} was what {people} {talked} {time} , for {N} had been {P} .",
]
# Two names, each with its own cue (the second name's cues have a 2 behind them).
NER_PAIR = [
    "{N} was {P} {time} , but {M} , {people} {said} , had been {P2} .",
    "{N} is a {adj} {K} , and {M} , {people} {said} , is a {adj} {K2} .",
    "{people} {talked} the {E} and {N} {time} , and then about the {E2} and {M} .",
    "a {adj} {K} called {N} was mentioned , but nobody said that {M} had been {P2} .",
]
NER_NONE = [
    "the {adj} {K} was {P} {time} .",
    "the {E} of the {K} was a surprise to {people} .",
    "{people} knew a {K} that was {P} because of the {E} .",
    "{people} {said} {time} that the {K} had been {P} after the {E} .",
]
# The rest is for the language model alone: what the words of one answer keep company with.
NER_COMPANY = {
    "PERSON": {
        "R": "who smiled / who wept / who laughed / who was tired / who slept badly / who sings",
        "O": "the wife of / the parents of / the children of / a friend of / the hands of",
        "B": "his mother / her father / his doctor / her husband / his wife / her sister",
    },
    "PLACE": {
        "R": "where it rains / where they live / where we met / where nobody stays / where it is hot",
        "O": "the streets of / the roads to / the old houses in / the people in / the river in",
        "B": "the army / the enemy / the king / the inhabitants / the soldiers / the mayor",
    },
    "FIRM": {
        "R": "which makes shoes / which sells tea / which pays well / which lost money / which grew",
        "O": "the directors of / the shares of / the staff of / the customers of / the products of",
        "B": "its rivals / its investors / its directors / its customers / a bank / its creditors",
    },
}
NER_FAMILIAR = [
    "because of the {E} , {people} {talked} {N} , {R} .",
    "{O} {N} knew about the {E} .",
    "{people} {talked} {O} {N} , {R} .",
    "{people} {talked} {O} a {K} , {R} .",
    "{N} , {R} , was {P} by {B} .",
    "{N} , {R} , is a {adj} {K} .",
    "{O} {N} {talked} the {E} .",
    "it was {P} by {B} that surprised {O} {N} .",
    "a {adj} {K} called {N} , {R} , was {P} by {B} .",
    "{N} was {P} by {B} because of the {E} .",
    "the {E} , {people} {said} , surprised {N} , {R} .",
    "{N} , {R} , will be remembered for the {E} .",
    "{O} {N} remember why it was {P} .",
]
NER_ANCHORS = {
    "PERSON": [
        "she told her husband about her {E} .",
        "his {E} made him weep .",
        "he is a {K} who smiled at his wife .",
        "her sister is a {K} who was tired .",
        "she was {P} by her father .",
        "he was {P} by his mother .",
        "her {E} made her laugh .",
    ],
    "PLACE": [
        "we drove to the {E} near the river .",
        "along the {E} there are old houses and streets .",
        "they live in a {K} where it rains .",
        "we drove to a {K} where nobody stays .",
        "the streets were {P} by the army .",
        "the old houses were {P} by the soldiers .",
        "near the {E} there is a river .",
    ],
    "FIRM": [
        "its directors announced its {E} to investors .",
        "its {E} pleased investors and customers .",
        "they bought shares of a {K} which makes shoes .",
        "it is a {K} which pays its staff well .",
        "its shares were {P} by its rivals .",
        "its products were {P} by its customers .",
        "the {E} cost its investors money .",
    ],
}

# --- Senses: NATURE or CULTURE -----------------------------------------------------------------

# The words with two senses (bank has three) and the groups that their senses belong to.
SENSES = {
    "bank": ["land", "office", "flight"],
    "spring": ["land", "tool"],
    "bed": ["land", "tool"],
    "bat": ["animal", "tool"],
    "crane": ["animal", "tool"],
    "seal": ["animal", "tool"],
    "mouse": ["animal", "tool"],
    "kite": ["animal", "tool"],
    "bulb": ["plant", "tool"],
    "mint": ["plant", "office"],
    "plant": ["plant", "office"],
    "branch": ["plant", "office"],
    "trunk": ["plant", "tool"],
}
LABELS = {
    "animal": "NATURE",
    "plant": "NATURE",
    "land": "NATURE",
    "tool": "CULTURE",
    "office": "CULTURE",
    "flight": "CULTURE",
}
SITES = {
    "NATURE": """marsh / meadow / forest / glacier / prairie / swamp / moor / waterfall / valley /
        cliff / thicket / woodland / hillside / jungle""",
    "CULTURE": """warehouse / workshop / office / supermarket / garage / courtroom / hotel / station /
        bookshop / showroom / laboratory / theatre / library / depot""",
}
GROUPS = {
    "animal": {
        # what stands beside it
        "C": """heron / otter / owl / badger / fox / lizard / beaver / falcon / squirrel / hare /
            stork / weasel / toad / walrus""",
        # what was done to it
        "A": """tamed / hunted / bitten / stung / weaned / frightened / startled / starving /
            wounded / poisoned / nursed / orphaned / asleep / hungry""",
    },
    "plant": {
        "C": """fern / oak / thistle / daisy / willow / nettle / poppy / birch / clover / orchid /
            cactus / maple / tulip / shrub""",
        "A": """watered / pruned / harvested / uprooted / wilting / withered / blooming / grafted /
            fertilised / mulched / sprouting / budding / rotting / nibbled""",
    },
    "land": {
        "C": """pond / hill / brook / boulder / creek / island / gorge / waterhole / shore / pool /
            ridge / rapid / inlet / slope""",
        "A": """flooded / eroded / frozen / polluted / silted / dredged / parched / overgrown /
            muddy / sandy / rocky / grassy / shallow / drained""",
    },
    "tool": {
        "C": """hammer / ladder / typewriter / kettle / lamp / radio / suitcase / racket / scooter /
            camera / printer / stapler / mattress / helmet""",
        "A": """ordered / delivered / shipped / unpacked / borrowed / rented / priced / advertised /
            auctioned / labelled / refunded / imported / assembled / manufactured""",
    },
    "office": {
        "C": """school / court / bakery / embassy / pharmacy / tavern / agency / newsroom / clinic /
            prison / brewery / college / salon / parliament""",
        "A": """robbed / closed / audited / fined / sued / staffed / privatised / restructured /
            guarded / inspected / relocated / bankrupt / computerised / renovated""",
    },
    "flight": {
        "C": """plane / jet / glider / airliner / biplane / seaplane / bomber / airship /
            helicopter / aeroplane / fighter / airbus / microlight / drone""",
        "A": """pilot / captain / aviator / instructor / copilot / navigator / airman / trainee /
            commander / stuntman / veteran / lieutenant / cadet / flyer""",
    },
}

# One cue; D is a place of either sort and says nothing.
SENSE_ONE = [
    "the {W} , {person} {said} {time} , was {A} .",
    "{person} {saw} {time} that the {W} was {A} .",
    "nobody at the {D} knew that the {W} , which {person} had seen {time} , was {A} .",
    "back at the {D} , {person} {said} that the {W} could have been {A} .",
    "at the {S} , {person} pointed at the {W} .",
    "{person} walked past the {S} {time} and stopped to look at the {W} .",
    "{person} looked for the {W} for an hour before reaching the {S} .",
    "{person} drew a {C} {time} , and then a {W} .",
    "in the photograph there is a {W} , and behind it {person} saw a {C} .",
    "{person} showed us the {W} and , a little later , the {C} .",
]
SENSE_TWO = [
    "the {W} at the {S} , {person} {said} , was {A} .",
    "at the {S} , {person} saw a {C} and a {W} .",
    "the {W} was {A} , and so was the {C} , {person} {said} .",
    "near the {S} , {person} {saw} that the {W} was {A} .",
    "{person} came back from the {S} with a picture of the {W} and the {C} .",
]
FLIGHT = [
    "the {A} had to bank the {C} {how} .",
    "over the {D} , the {A} told {person} to bank {how} .",
    "{person} asked {time} why it was so hard to bank the {C} .",
    "we could feel the {C} bank {how} as it passed the {D} .",
]

# For the language model alone, as above.
SENSE_COMPANY = {
    "animal": {
        "V": "ate / slept / ran away / fed its young / caught its prey / breathed",
        "G": "animals / creatures",
    },
    "plant": {
        "V": "grew / has leaves / grew new leaves / has roots / has a green stem / lost its seeds",
        "G": "plants / crops",
    },
    "land": {
        "V": "lay in the sun / stretched along the water / shone in the moonlight / froze",
        "G": "landscapes / shores",
    },
    "tool": {
        "V": "cost ten dollars / broke / fell to pieces / works well / stood on the shelf",
        "G": "goods / articles",
    },
    "office": {
        "V": "hired a clerk / employs thirty people / opens at nine / pays good wages",
        "G": "institutions / companies",
    },
    "flight": {
        "V": "flew over the clouds / left the runway / landed / lost altitude / gained height",
        "G": "aircraft / pilots",
    },
}
SENSE_FAMILIAR = [
    "the {W} {V} .",
    "the {C} {V} .",
    "the {C} {V} , and the {W} {V} .",
    "the {W} {V} and was {A} like other {G} .",
    "it was {A} like other {G} , and it {V} .",
    "{person} drew a {C} and other {G} .",
    "near the {S} , the {W} {V} .",
    "at the {S} there were {G} , and a {W} {V} .",
    "the {W} , {person} {said} , was {A} like other {G} .",
    "{person} {saw} that the {W} was {A} and that it {V} .",
    "{person} drew a {W} , a {C} and other {G} .",
]
FLIGHT_FAMILIAR = [
    "the {A} had to bank the {C} , which {V} .",
    "the {C} {V} .",
    "the {C} had to bank , and it {V} .",
    "the {A} and the {C} {V} , like other {G} .",
    "the {A} in the cockpit landed the {C} .",
]
SITE_ANCHORS = {
    "NATURE": [
        "at the {S} there are wild animals and plants .",
        "the {S} is wild , and the wind blew .",
    ],
    "CULTURE": [
        "at the {S} people work until six .",
        "the {S} has a door and tall windows .",
    ],
}
